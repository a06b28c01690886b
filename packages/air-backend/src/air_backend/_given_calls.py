"""What `compile_fx` returns: who serves the calls of a graph that a caller made, and which calls are refused.

    run = compile_fx(gm, [x])
    run(x)              # a graph of ATen operators, as it was compiled
    run(x.t())          # lies otherwise than the trace: torch.compile of the graph, whose guards see to it
    run(x[:1])          # another size, where the trace has a fixed one: refused

Inside a compilation of Dynamo's, which guards the calls, the graph is compiled as one of Dynamo's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import fx
from torch._guards import TracingContext

from air_backend._as_compiled import AsCompiled
from air_backend._given import in_a_tuple, is_as_aotautograd_makes_it, takes_arguments_as_placeholders
from air_backend._kinds import Kinds, kinds_of, traced_values
from air_graph import turned_inputs

Run = Callable[..., Any]

#: What reads a number out of a tensor, in a graph of ATen operators or of torch's functions.
_READS_NUMBERS: Final = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default, "item")


def compiled_graph(
    gm: fx.GraphModule,
    inputs: Sequence[Any] | None,
    backend: Run,
    direct: Callable[[fx.GraphModule, Sequence[Any]], Run],
) -> Run:
    """Compiles a graph by `direct` where it is one of ATen operators, and otherwise by `backend`, as Dynamo would."""
    inputs = traced_values(gm) if inputs is None else inputs
    if inputs is None or not takes_arguments_as_placeholders(gm):
        return guarded(gm, backend)
    kinds = kinds_of(gm, inputs)
    if is_as_aotautograd_makes_it(gm):
        state = AsCompiled(gm, kinds)
        run = in_a_tuple(gm, lambda flat: direct(flat, inputs))
        return _of_its_kind(gm, kinds, _where_it_serves(run, state, guarded(gm, backend)))
    if TracingContext.try_get() is not None:
        return in_a_tuple(gm, lambda flat: backend(flat, inputs))
    if turned_inputs(gm):  # it runs eagerly, and the backend says so; Dynamo would fail
        return _of_its_kind(gm, kinds, in_a_tuple(gm, lambda flat: backend(flat, inputs)))
    return _of_its_kind(gm, kinds, guarded(gm, backend))


def guarded(module: torch.nn.Module, backend: Run, dynamic: bool | None = None) -> Run:
    """The module compiled by Dynamo: for each state, layout and size of a call, as it comes."""
    run: Run = torch.compile(module, backend=backend, dynamic=dynamic)
    if not _reads_numbers(module):
        return run

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._dynamo.config.patch(capture_scalar_outputs=True):
            return run(*args, **kwargs)

    return call


def _reads_numbers(module: torch.nn.Module) -> bool:
    graphs = (each.graph for each in module.modules() if isinstance(each, fx.GraphModule))
    return any(node.target in _READS_NUMBERS for graph in graphs for node in graph.nodes)


def _where_it_serves(run: Run, state: AsCompiled, otherwise: Run) -> Run:
    def call(*args: Any) -> Any:
        return run(*args) if state.serves(args) else otherwise(*args)

    return call


def _of_its_kind(gm: fx.GraphModule, kinds: Kinds, run: Run) -> Run:
    """`run`, for arguments of the kinds of the example; others are refused."""
    signature = inspect.signature(gm.forward)

    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            args = signature.bind(*args, **kwargs).args
        kinds.check(args)
        return run(*args)

    return call
