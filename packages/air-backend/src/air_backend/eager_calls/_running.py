"""Runs a graph of Dynamo's eagerly, where it cannot be compiled: said once, at a line of the user's, and counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import fx
from torch._dynamo.utils import counters

from air_backend.eager_calls.errors import RunsEagerly
from air_config import CompilerConfig
from air_config.errors import AirError
from air_graph import SourceLine, duplicate, warn_at

Run = Callable[..., Any]

#: The group of torch's counters that says which calls ran eagerly, and why.
EAGER_CALLS: Final = "air: calls run eagerly"
#: Dynamo's function that takes back the version that its `set_` counts.
_LESS: Final = "_lower_version_count_by_1"


def running_eagerly(run: Run, told: RunsEagerly) -> Run:
    """`run`, whose calls are counted; says why they are not compiled."""
    warn_at(told.place, told, "air_backend")
    reason = str(told)

    def eager(*args: Any, **kwargs: Any) -> Any:
        counters[EAGER_CALLS][reason] += 1
        return run(*args, **kwargs)

    return eager


def eager_or_refused(
    original: fx.GraphModule | None,
    line: SourceLine | None,
    told: Callable[[SourceLine | None], RunsEagerly],
    refused: Callable[[SourceLine | None], AirError],
) -> Run:
    """A graph as it came, for calls that its compiled form cannot serve, said at a line; raises without a graph."""
    eager: Run | None = None

    def call(*args: Any) -> Any:
        nonlocal eager
        if original is None:
            raise refused(line)
        if eager is None:
            eager = running_eagerly(original, told(line))
        return eager(*args)

    return call


def as_it_came(gm: fx.GraphModule) -> fx.GraphModule:
    """A copy of a graph without what only compilers need, which assigns `data` as the user wrote it."""
    copy = duplicate(gm)
    for node in copy.graph.nodes:
        node.meta = {}
    assigned = [node for node in copy.graph.nodes if _ends_an_assignment(node)]
    for node in assigned:
        _assign_as_written(node)
    if assigned:
        copy.recompile()
    return copy


def _ends_an_assignment(node: fx.Node) -> bool:
    """Whether it is the second half of what Dynamo writes for `tensor.data = value`: `set_`, and a version less."""
    return getattr(node.target, "__name__", "") == _LESS and node.args[0].target is torch.Tensor.set_  # type: ignore[union-attr]


def _assign_as_written(version: fx.Node) -> None:
    """Eager has neither half: an inference tensor takes no `set_` outside of inference mode, and counts no versions."""
    (assigned,) = version.all_input_nodes
    assigned.target = _assign
    version.replace_all_uses_with(assigned)
    version.graph.erase_node(version)


def _assign(tensor: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    tensor.data = value
    return tensor


def asks_for_an_error(config: CompilerConfig) -> bool:
    """Whether what cannot be compiled is to be an error, and not to run eagerly."""
    option = "air.unsupported" if config.layered("mode") == "max-autotune" else "air.uncapturable"
    return bool(config.layered(option) == "error")
