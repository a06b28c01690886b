"""Runs what has no translation eagerly, between compiled pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from air_geir.lowering import Unsupported

Compile = Callable[..., Any]


@dataclass
class _Lowerable(OperatorSupportBase):
    """What may go into a compiled piece: everything but the nodes that were refused."""

    refused: frozenset[str]

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:
        return node.op == "call_function" and node.name not in self.refused


class SplitExecutable:
    """Compiled pieces with eager operators between them."""

    def __init__(
        self, module: fx.GraphModule, pieces: Mapping[str, Any], eager: Sequence[Unsupported]
    ) -> None:
        self.pieces = dict(pieces)
        self.eager = tuple(eager)
        """What runs eagerly, and why."""
        self._module = module

    def __call__(self, *args: Any) -> list[Any]:
        with torch.no_grad():
            results = self._module(*args)
        return list(results) if isinstance(results, (tuple, list)) else [results]

    def explain(self) -> str:
        """The pieces, and every operator that runs eagerly with its reason and place."""
        lines = [f"{len(self.pieces)} compiled pieces; eager between them:"]
        lines.extend(f"  {u.target}: {u.reason}  {u.source or u.node}" for u in self.eager)
        return "\n".join([*lines, *(piece.explain() for piece in self.pieces.values())])

    def stats(self) -> dict[str, object]:
        """Numbers of each piece."""
        return {"eager": len(self.eager), **{name: piece.stats() for name, piece in self.pieces.items()}}

    def close(self) -> None:
        """Closes every piece."""
        for piece in self.pieces.values():
            piece.close()


class _Piece(torch.nn.Module):
    def __init__(self, run: Any, single: bool) -> None:
        super().__init__()
        self.run = run
        self.single = single

    def forward(self, *args: Any) -> Any:
        results = self.run(*args)
        return results[0] if self.single else results


def compile_split(
    gm: fx.GraphModule, found: Sequence[Unsupported], compile_piece: Compile
) -> SplitExecutable:
    """Cuts a graph round the nodes that were refused and compiles the rest.

    Args:
        gm: the whole graph; it is copied.
        found: what the lowering of the whole graph refused.
        compile_piece: compiles one piece: takes its graph and example inputs.
    """
    copy = fx.GraphModule(gm, fx.Graph(gm.graph.owning_module))
    copy.graph.output(copy.graph.graph_copy(gm.graph, {}))
    refused = frozenset(u.node for u in found)
    partitioner = CapabilityBasedPartitioner(copy, _Lowerable(refused), allows_single_node_partition=True)
    split = partitioner.partition_and_fuse()
    pieces: dict[str, Any] = {}
    for node in split.graph.nodes:
        if node.op != "call_module":
            continue
        body = split.get_submodule(str(node.target))
        assert isinstance(body, fx.GraphModule)
        results = body.graph.output_node().args[0]
        single = not isinstance(results, (tuple, list))
        if single:
            body.graph.output_node().args = ((results,),)
            body.recompile()
        holders = [n for n in body.graph.nodes if n.op == "placeholder"]
        run = compile_piece(body, [n.meta.get("val") for n in holders], name=str(node.target))
        pieces[str(node.target)] = run
        split.set_submodule(str(node.target), _Piece(run, single))
    return SplitExecutable(split, pieces, found)
