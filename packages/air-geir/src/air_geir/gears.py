"""Gears: a dynamic dim that takes one of a few declared sizes, so that the engine can prepare each of them.

    air_geir.gears.set_dim_gears(tokens, {0: [1, 2, 4, 8]})

Every other dim of every input becomes static. `config.inference_config.dynamic_gears_merge_policy` selects how gears of
several dims combine: `zip` pairs them, `product` takes every combination.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import torch
from torch.fx.experimental.symbolic_shapes import guard_bool, guard_int

from air_fxpasses.declared import Declaration, declared_by_position, declared_on
from air_fxpasses.errors import DeclarationRefused
from air_geir.errors import GearError
from air_geir.ir import Expr
from air_geir.program import ArgInput, Program

log = logging.getLogger(__name__)

Gears = Mapping[int, tuple[int, ...]]
"""Dim -> the sizes it may take."""

GEARS: Final = Declaration("set_dim_gears", "dim_gears", "gears", least=1, most=100)
MOST_TOGETHER: Final = 100


def set_dim_gears(tensor: torch.Tensor, dim_gears: Mapping[int, Sequence[int]]) -> None:
    """Declare the sizes that dims of an input tensor will take.

    Each dim needs 2 to 100 different sizes, none of them 0. Declaring the same again is fine; declaring something
    else on the same tensor is refused.
    """
    GEARS.declare(tensor, dim_gears, _different)


def get_dim_gears(tensor: torch.Tensor) -> Gears | None:
    """The gears declared on a tensor."""
    return declared_on(tensor, GEARS.attribute)


def _different(dim: int, sizes: Sequence[int]) -> tuple[int, ...]:
    if len(set(sizes)) != len(sizes) or len(sizes) < 2:
        raise DeclarationRefused(
            f"dim {dim} has {len(sizes)} gears: {list(sizes)}",
            advice=f"give 2 to {GEARS.most} different sizes",
        )
    return tuple(sizes)


def find_gears(example_inputs: Sequence[Any]) -> Mapping[int, Gears]:
    """The gears among a graph's inputs, by position.

    A compiler gets fake tensors: gears are then found by the symbol of the dim they were declared on, so that every
    input that shares the symbol has them too.
    """
    return declared_by_position(example_inputs, GEARS.attribute)


def guard_gears(example_inputs: Sequence[Any], gears: Mapping[int, Gears]) -> None:
    """Make every other dim static, and let a size between two gears recompile."""
    for position, value in enumerate(example_inputs):
        if isinstance(value, torch.Tensor):
            own = gears.get(position, {})
            for dim, size in enumerate(value.shape):
                if dim in own:
                    _guard_gear(size, sorted(own[dim]))
                else:
                    guard_int(size)


def _guard_gear(size: int | torch.SymInt, gears: Sequence[int]) -> None:
    now = size.node.hint if isinstance(size, torch.SymInt) else size
    if now not in gears:
        raise GearError(
            f"an input has size {now} where gears {list(gears)} were declared",
            advice="pad the input to the next gear, or declare this size too",
        )
    guard_bool((size >= gears[0]) & (size <= gears[-1]))
    for low, high in itertools.pairwise(gears):
        guard_bool((size <= low) | (size >= high))


def gear_options(program: Program, gears: Mapping[int, Gears], policy: str) -> dict[str, str]:
    """The engine's options for these gears, in the order of the names of the inputs.

    None where the graph reads no input that has gears, and none, with a warning, where an input has a size that no gear
    decides.
    """
    nodes = sorted(zip(program.graph.inputs, program.inputs, strict=True), key=lambda pair: pair[0].name)
    shapes = []
    dims: list[Expr] = []
    sizes: dict[str, tuple[int, ...]] = {}
    named: list[str] = []
    for node, binding in nodes:
        desc = node.output.desc
        shapes.append(f"{node.name}:{','.join(map(str, desc.file_shape()))}")
        own = gears.get(binding.arg, {}) if isinstance(binding, ArgInput) else {}
        if own:
            named.append(node.name)
        for dim, size in enumerate(desc.shape or ()):
            if isinstance(size, Expr):
                dims.append(size)
                if size.op == "symbol" and dim in own:
                    sizes.setdefault(size.name, own[dim])
    if not sizes:
        if named:
            log.warning(
                "%s: gears are declared, but every dim of %s is static: compile with dynamic=True, or declare no gears",
                program.graph.name,
                ", ".join(named),
            )
        return {}
    open_ = {name for dim in dims for name in dim.symbols()} - sizes.keys()
    if open_:
        log.warning(
            "%s: the gears are left out, and the graph is compiled for any size: %s is known only in a call. Pass "
            "tensors that share no memory with each other",
            program.graph.name,
            ", ".join(sorted(open_)),
        )
        return {}
    chosen = [dict(zip(sizes, row, strict=True)) for row in _combine(list(sizes.values()), policy)]
    rows = list(dict.fromkeys(tuple(dim.evaluate(values) for dim in dims) for values in chosen))
    if len(rows) > MOST_TOGETHER:
        raise GearError(
            f"{len(rows)} combinations of gears, at most {MOST_TOGETHER} are possible",
            advice="declare fewer sizes, or set dynamic_gears_merge_policy to 'zip'",
        )
    return {
        "ge.inputShape": ";".join(shapes),
        "ge.dynamicDims": ";".join(",".join(map(str, row)) for row in rows),
        "ge.dynamicNodeType": "1",
    }


def _combine(columns: Sequence[tuple[int, ...]], policy: str) -> Iterable[tuple[int, ...]]:
    if policy == "product":
        return itertools.product(*columns)
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise GearError(
            f"gears of {sorted(lengths)} sizes cannot be paired",
            advice="declare as many sizes for each dim, or set dynamic_gears_merge_policy to 'product'",
        )
    return zip(*columns, strict=True)


__all__ = ["GEARS", "Gears", "find_gears", "gear_options", "get_dim_gears", "guard_gears", "set_dim_gears"]
