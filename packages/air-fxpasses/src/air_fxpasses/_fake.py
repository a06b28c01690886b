"""Example values of nodes: found in `meta["val"]`, computed where they are missing or out of date."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from air_fxpasses._run import called
from air_fxpasses.errors import NoFakeValue
from air_graph import attribute, keeps_gaps

aten = torch.ops.aten


class FakeValues:
    """Gives the example value of each node of one graph module, evaluating under its fake mode."""

    def __init__(self, gm: GraphModule, example_inputs: Sequence[Any] | None = None) -> None:
        self._gm = gm
        self._examples = list(example_inputs or ())
        found = (n.meta["val"] for n in gm.graph.nodes if "val" in n.meta)
        mode = detect_fake_mode([*self._examples, *found])
        self.mode: FakeTensorMode = mode or FakeTensorMode(allow_non_fake_inputs=True)

    def fill(self, node: Node, position: int) -> None:
        """Computes the example value of a node that has none; `position` counts placeholders."""
        if node.op == "placeholder":
            if position >= len(self._examples):
                raise NoFakeValue(node)
            value = self._to_fake(self._examples[position])
        elif node.op == "get_attr":
            value = self._to_fake(attribute(self._gm, str(node.target)))
            if not isinstance(value, torch.Tensor):
                return
        else:
            value = self.evaluate(node)
        node.meta["val"] = value

    def _to_fake(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
            return self.mode.from_tensor(value)
        return value

    def evaluate(self, node: Node) -> Any:
        """The example value that the node's target gives for the example values of its arguments."""
        given: Any = map_arg((node.args, node.kwargs), self._argument)
        args, kwargs = given
        try:
            if node.target is operator.getitem:
                return args[0][args[1]]
            # torch's cache of fake results forgets the storage offset that such a result keeps
            cached = self.mode.cache_enabled and not keeps_gaps(node.target)
            with self.active(args), mock.patch.object(self.mode, "cache_enabled", cached):
                return called(self._gm, node, args, kwargs)
        except Exception as error:  # any operator may raise anything: reported with the node, never swallowed
            raise NoFakeValue(node, error) from error

    def _argument(self, node: Node) -> Any:
        if node.op == "get_attr" and "val" not in node.meta:
            return attribute(self._gm, str(node.target))
        return node.meta.get("val")

    @contextlib.contextmanager
    def active(self, args: Sequence[Any] = ()) -> Iterator[None]:
        """The fake mode with everything that keeps an evaluation from leaving traces in it."""
        tensors = (a for a in args if isinstance(a, torch.Tensor))
        inference = torch.inference_mode(any(t.is_inference() for t in tensors))
        env = self.mode.shape_env
        quiet = env.ignore_fresh_unbacked_symbols() if env is not None else contextlib.nullcontext()
        # as tracing does: operators decompose for symbolic sizes, and keep their own kernels otherwise
        symbolic = contextlib.nullcontext() if self.mode.static_shapes else enable_python_dispatcher()
        with self.mode, symbolic, quiet, torch.no_grad(), inference:
            yield
