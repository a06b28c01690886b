"""Compares a call with what eager gives: the layout of every result, and which results share memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from air_geir.errors import ContractError
from air_geir.ir import Dim, Expr
from air_geir.program import Program, Promise, SymbolSource

Call = Callable[..., list[Any]]

_OTHERWISE: Final = (
    "please report it with the graph (config.debug.graph_dump); return a copy (.clone()) meanwhile"
)
_OF_CHECKS: Final = (
    "where the program checks a size that depends on data (torch._check), the check does not hold; else "
    + _OTHERWISE
)


def held(program: Program, call: Call) -> Call:
    """The function `bind` made, with a check of what each call gives."""

    def checked(*args: Any) -> list[Any]:
        results = call(*args)
        check(program, args, results)
        return results

    return checked


def check(program: Program, args: Sequence[Any], results: Sequence[Any]) -> None:
    """Raises a `ContractError` that names the first result that is not what eager gives."""
    sizes = _sizes(program.symbols, args)
    storages = {("argument", at): _storage(arg) for at, arg in enumerate(args) if isinstance(arg, Tensor)}
    for at, (result, promise) in enumerate(zip(results, program.promises, strict=False)):
        if promise is None or not isinstance(result, Tensor):
            continue
        for found, wanted, what in _facts(promise, result, args, program, sizes):
            if found != wanted:
                advice = _OF_CHECKS if what == "size" else _OTHERWISE
                _refuse(program, at, promise, f"has {what} {found}, eager gives {wanted}", advice)
        _check_memory(program, at, promise, result, storages)


def _facts(
    promise: Promise, result: Tensor, args: Sequence[Any], program: Program, sizes: Mapping[str, int]
) -> list[tuple[object, object, str]]:
    """What is found, what is promised, and what it is."""
    facts: list[tuple[object, object, str]] = []
    size = tuple(result.shape)
    facts.append((result.device.type, promise.device or result.device.type, "device"))
    same_rank = len(promise.size) == len(size)
    facts.append((size, _filled(promise.size, size, sizes) if same_rank else tuple(promise.size), "size"))
    if 0 in size or any(found != wanted for found, wanted, _ in facts):
        return facts
    kind, position = promise.memory
    if kind == "argument" and not _lies_as_traced(program, position, args[position], sizes):
        return facts
    stride = tuple(1 if n == 1 else s for n, s in zip(size, result.stride(), strict=True))
    wanted = _filled(promise.stride, result.stride(), sizes)
    facts.append((stride, tuple(1 if n == 1 else s for n, s in zip(size, wanted, strict=True)), "strides"))
    start = 0 if promise.absolute else args[position].storage_offset() * args[position].element_size()
    offset = int(result.storage_offset()) * result.element_size() - start
    facts.append((offset, _filled((promise.offset,), (offset,), sizes)[0], "an offset (in bytes) of"))
    return facts


def _lies_as_traced(program: Program, position: int, arg: Tensor, sizes: Mapping[str, int]) -> bool:
    """Whether an argument has the strides it was traced with; views of another one have other strides."""
    traced = program.argument_promises[position]
    if traced is None:
        return False
    strides, wanted = arg.stride(), _filled(traced.stride, arg.stride(), sizes)
    return all(n == 1 or a == b for n, a, b in zip(arg.shape, strides, wanted, strict=True))


def _check_memory(
    program: Program, at: int, promise: Promise, result: Tensor, storages: dict[tuple[str, int], int]
) -> None:
    storage = _storage(result)
    if storage == 0:  # nothing lies there
        return
    wanted = storages.setdefault(promise.memory, storage)
    if storage != wanted:
        _refuse(
            program,
            at,
            promise,
            f"does not share the memory of {_named(promise.memory)}, as it does in eager",
        )
    for other, known in storages.items():
        if known == storage and other != promise.memory and {other[0], promise.memory[0]} != {"argument"}:
            _refuse(program, at, promise, f"shares memory with {_named(other)}, which it does not in eager")


def _named(memory: tuple[str, int]) -> str:
    kind, number = memory
    return f"argument {number}" if kind == "argument" else "other results"


def _storage(tensor: Tensor) -> int:
    if tensor.layout is not torch.strided or tensor._is_zerotensor():
        return 0
    return tensor.untyped_storage().data_ptr()


def _sizes(symbols: Mapping[str, SymbolSource], args: Sequence[Any]) -> dict[str, int]:
    known = {}
    for name, source in symbols.items():
        if source.computed:
            continue
        given = args[source.arg]
        if source.offset:
            known[name] = given.storage_offset()
        elif source.dim is None:
            known[name] = given
        else:
            known[name] = (given.stride() if source.stride else given.shape)[source.dim]
    return known


def _filled(dims: Sequence[Dim | None], found: Sequence[int], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The promised numbers; those that cannot be computed are taken from what was found."""
    return tuple(
        seen
        if dim is None or (isinstance(dim, Expr) and not dim.symbols() <= sizes.keys())
        else (dim.evaluate(sizes) if isinstance(dim, Expr) else dim)
        for dim, seen in zip(dims, found, strict=True)
    )


def _refuse(program: Program, at: int, promise: Promise, what: str, advice: str = _OTHERWISE) -> None:
    raise ContractError(
        f"result {at} of graph {program.graph.name} {what}",
        where=promise.where,
        advice=advice,
    )
