"""Graphs of plain functions and exact comparison, to prove a pass (or anything that runs graphs) of your own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch._functorch.aot_autograd import aot_module_simplified
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from air_fxpasses._compare import difference
from air_fxpasses._run import Outcome, copied, run_graph

__all__ = [
    "Outcome",
    "backend_of",
    "compiled_graph",
    "copied",
    "difference",
    "functional_graph",
    "run_graph",
]


def functional_graph(function: Callable[..., Any], *inputs: Any, is_dynamic: bool = False) -> GraphModule:
    """`function` as an ATen graph without writes, except the final copies into inputs it changes."""
    functional = torch.func.functionalize(function, remove="mutations")
    mode: Literal["symbolic", "fake"] = "symbolic" if is_dynamic else "fake"
    with torch.no_grad():
        gm = make_fx(functional, tracing_mode=mode)(*copied(inputs))
    gm.graph.eliminate_dead_code()
    return gm


def backend_of(transform: Callable[[GraphModule], Any]) -> Callable[..., Any]:
    """A backend for `torch.compile`: `transform` edits each inference graph, then the graph itself is run."""

    def compiler(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        transform(gm)
        gm.recompile()
        return gm.forward

    def backend(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        compiled: Callable[..., Any] = aot_module_simplified(
            gm,
            example_inputs,
            fw_compiler=compiler,
            inference_compiler=compiler,
            keep_inference_input_mutations=True,
        )
        return compiled

    return backend


def compiled_graph(function: Callable[..., Any], *inputs: Any, dynamic: bool = False) -> GraphModule:
    """The inference graph that Dynamo and AOTAutograd make of `function`, input mutations kept."""
    found: list[GraphModule] = []
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(function, backend=backend_of(found.append), dynamic=dynamic, fullgraph=True)(
            *copied(inputs)
        )
    return found[0]
