"""Runs what has no translation eagerly, between compiled pieces."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeGuard

import torch
from torch import fx
from torch._prims_common import is_contiguous_or_false

from air_geir._plain_masks import with_plain_masks
from air_geir.converters import name_of
from air_geir.errors import CompilationFailed, UnsupportedGraphError
from air_geir.lowering._source import source_of
from air_graph import copies_with_gaps
from air_graph.executors import left_out
from air_graph.pieces import Cut, LeftOut, compile_parts, cut
from air_streams import note_scopes, restore_scopes

log = logging.getLogger(__name__)

Compile = Callable[..., Any]
Run = Callable[..., Any]


_WHOLE: Final = "the whole graph, from here"


class SplitExecutable:
    """Compiled pieces with eager operators between them."""

    def __init__(self, name: str, call: Run, pieces: Mapping[str, Any], eager: Sequence[LeftOut]) -> None:
        self.name = name
        self.pieces = dict(pieces)
        self.eager = tuple(eager)
        """What runs eagerly, and why."""
        self._call = call

    def __call__(self, *args: Any) -> list[Any]:
        with torch.no_grad():
            results = self._call(*args)
        return list(results) if isinstance(results, (tuple, list)) else [results]

    @property
    def source(self) -> str:
        """The Python of each piece."""
        return "\n\n".join(f"# {name}\n{piece.source}" for name, piece in self.pieces.items())

    def explain(self) -> dict[str, Any]:
        """The pieces, and every operator that runs eagerly with its reason and place."""
        return {
            "eager": left_out(self.eager),
            "pieces": {name: piece.explain() for name, piece in self.pieces.items()},
        }

    def stats(self) -> dict[str, Any]:
        """Numbers of each piece."""
        return {"eager": len(self.eager), **{name: piece.stats() for name, piece in self.pieces.items()}}

    def close(self) -> None:
        """Closes every piece."""
        for piece in self.pieces.values():
            piece.close()


def run_whole(gm: fx.GraphModule, name: str, error: CompilationFailed) -> SplitExecutable:
    """Runs a graph eagerly that an engine does not compile."""
    first = next(node for node in gm.graph.nodes if node.op == "call_function")
    reason = error.what.partition("\n")[0]
    return SplitExecutable(name, _as_stated(gm), {}, [LeftOut(first.name, _WHOLE, reason, source_of(first))])


def compile_split(
    gm: fx.GraphModule, name: str, found: Sequence[LeftOut], compile_piece: Compile
) -> SplitExecutable:
    """Cuts a graph round the nodes that were refused and compiles the rest.

    A piece that is refused is cut again: some sizes and types are known only once it stands alone.

    Args:
        gm: the whole graph.
        name: its name in reports.
        found: what the lowering of the whole graph refused.
        compile_piece: compiles one piece: takes its graph and example inputs.
    """
    scopes = note_scopes(gm)
    refused = [one for one in found if one.node not in scopes]
    while True:
        refused += _with_gaps(gm, refused)
        names = {one.node for one in refused}
        parted = cut(gm, [node for node in gm.graph.nodes if node.name in names])
        try:
            return _compiled(name, parted, refused, compile_piece)
        except UnsupportedGraphError as again:
            fresh = [one for one in again.found if one.node not in names]
            if not fresh:
                raise
            refused += fresh


def _with_gaps(gm: fx.GraphModule, refused: Sequence[LeftOut]) -> list[LeftOut]:
    """The scatters whose results are read by strides: a compiled piece would give those results without gaps."""
    readers = {one.node: one for one in refused}
    found = {
        node.name: LeftOut(
            node.name,
            name_of(node.target),
            f"{readers[reader.name].target} reads what lies round the elements of its result",
            source_of(node),
        )
        for reader in gm.graph.nodes
        if reader.name in readers
        for node in copies_with_gaps(reader)
    }
    return [one for name, one in found.items() if name not in readers]


def _compiled(graph: str, parted: Cut, refused: Sequence[LeftOut], compile_piece: Compile) -> SplitExecutable:
    pieces: dict[str, Any] = {}

    def compiled(part: fx.GraphModule, examples: list[Any], name: str) -> Run:
        restore_scopes(part)
        pieces[name] = compile_piece(part, examples, name=name)
        run: Run = pieces[name]
        return run

    try:
        call, _ = compile_parts(parted, compiled, lambda part, *_: _as_stated(part))
    except UnsupportedGraphError:
        for piece in pieces.values():
            piece.close()
        raise
    return SplitExecutable(graph, call, pieces, refused)


def _as_stated(part: fx.GraphModule) -> Run:
    """Runs operators eagerly, and makes their results dense and resolved where the example values are.

    The next piece is compiled for these example values, and an engine reads memory as it lies. Fake kernels can be
    wrong: that of `_conj` of a number gives a resolved value, the real kernel does not.
    """
    part = with_plain_masks(part)
    leaves: Any = part.graph.output_node().args[0]
    # a backward graph gives None for what wants no gradient
    stated = [leaf.meta.get("val") if isinstance(leaf, fx.Node) else None for leaf in leaves]
    dense = [is_contiguous_or_false(value) if _is_strided(value) else None for value in stated]
    turned = [isinstance(value, torch.Tensor) and (value.is_conj() or value.is_neg()) for value in stated]
    forward = part.forward

    def run(*args: Any) -> list[Any]:
        results = list(forward(*args))
        for at, is_dense in enumerate(dense):
            value = results[at]  # None: a fake kernel may state a result that the real one leaves out
            if is_dense is None or value is None:
                continue
            value = value if turned[at] else value.resolve_conj().resolve_neg()
            results[at] = value.contiguous() if is_dense else value
        return results

    return run


def _is_strided(value: Any) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided
