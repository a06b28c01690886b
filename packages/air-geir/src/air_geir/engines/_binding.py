"""The straight path from a caller's arguments to an engine and back, generated once per program."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import torch

from air_geir.engines._program import (
    ArgInput,
    ArgOutput,
    ConstantOutput,
    GraphOutput,
    InputBinding,
    OutputBinding,
    Program,
    SeedInput,
    SizeOutput,
    SymInput,
    SymPackInput,
    ViewOutput,
)
from air_geir.engines._protocol import Compiled
from air_geir.errors import EngineError
from air_geir.ir import Dim

_serial = count()


def bind(
    program: Program, compiled: Compiled, *, generator: torch.Generator | None = None
) -> Callable[..., list[Any]]:
    """A function of the caller's arguments that runs the program and gives the caller's results.

    Everything that can be decided now is decided now: the function is straight-line Python without loops,
    dictionaries or isinstance tests.
    """
    source = source_of(program)
    filename = f"<air_geir binding {next(_serial)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    names: dict[str, Any] = {
        "run": compiled,
        "vector": torch.tensor,
        "int64": torch.int64,
        "as_strided": torch.as_strided,
        "generator": _Rng(generator),
        **{f"constant{i}": b.value for i, b in enumerate(program.outputs) if isinstance(b, ConstantOutput)},
    }
    exec(compile(source, filename, "exec"), names)
    function: Callable[..., list[Any]] = names["call"]
    return function


def source_of(program: Program) -> str:
    """The source of the function `bind` makes; kept readable, it is part of `explain()`."""
    lines = [f"def call({', '.join(f'a{i}' for i in range(program.num_args))}):"]
    for name in sorted(program.used_symbols()):
        lines.append(f"    {name} = {_symbol(program, name)}")
    dense = {b.arg: f"d{b.arg}" for b in program.inputs if isinstance(b, ArgInput) and not b.contiguous}
    lines.extend(f"    {name} = a{arg}.contiguous()" for arg, name in dense.items())
    inputs = [_input(b, dense) for b in program.inputs]
    total = len(program.graph.outputs)
    targets = [program.assigned.get(i) for i in range(total)]
    assigned = [("None" if t is None else dense.get(t, f"a{t}")) for t in targets] if program.assigned else []
    lines.append(f"    r = run(({_tuple(inputs)}), ({_tuple(assigned)}))")
    for target in dict.fromkeys(t for t in targets if t is not None and t in dense):
        lines.append(f"    a{target}.copy_({dense[target]})")
    lines.append(f"    return [{', '.join(_output(i, b, program) for i, b in enumerate(program.outputs))}]")
    return "\n".join(lines) + "\n"


def _tuple(items: Sequence[str]) -> str:
    return "".join(f"{item}, " for item in items).rstrip() if items else ""


def _symbol(program: Program, name: str) -> str:
    origin = program.symbols.get(name)
    if origin is None:
        raise EngineError(
            f"no argument carries the size {name}",
            where=f"graph {program.graph.name}",
            advice="every symbol must be an argument or the size of a tensor argument",
        )
    return f"a{origin.arg}" if origin.dim is None else f"a{origin.arg}.shape[{origin.dim}]"


def _input(binding: InputBinding, dense: dict[int, str]) -> str:
    if isinstance(binding, ArgInput):
        return dense.get(binding.arg, f"a{binding.arg}")
    if isinstance(binding, SymInput):
        return f"vector({binding.value}, dtype=int64)"
    if isinstance(binding, SymPackInput):
        return f"vector({_list(binding.values)}, dtype=int64)"
    if isinstance(binding, SeedInput):
        return "generator.seed()"
    return f"generator.offsets({_list(binding.counts)})"


def _list(values: Sequence[Dim]) -> str:
    return "[" + ", ".join(map(str, values)) + "]"


def _output(position: int, binding: OutputBinding, program: Program) -> str:
    if isinstance(binding, GraphOutput):
        target = program.assigned.get(binding.index)
        return f"r[{binding.index}]" if target is None else f"a{target}"
    if isinstance(binding, ArgOutput):
        return f"a{binding.arg}"
    if isinstance(binding, ViewOutput):
        return f"as_strided(a{binding.arg}, {_list(binding.size)}, {_list(binding.stride)}, {binding.offset})"
    if isinstance(binding, SizeOutput):
        return str(binding.value)
    return f"constant{position}"


class _Rng:
    """Seed and offsets of torch's random generator, taken when a call is made, so that reseeding works."""

    def __init__(self, generator: torch.Generator | None) -> None:
        self._generator = generator

    def _source(self) -> torch.Generator:
        return self._generator if self._generator is not None else torch.default_generator

    def seed(self) -> torch.Tensor:
        return torch.tensor([self._source().initial_seed() & 0x7FFF_FFFF_FFFF_FFFF], dtype=torch.int64)

    def offsets(self, counts: Sequence[int]) -> torch.Tensor:
        source = self._source()
        if source.device.type == "cpu":
            drawn = torch.randint(0, 2**48, (len(counts),), dtype=torch.int64, generator=source)
            return drawn * 4
        start = source.get_offset()
        starts = []
        for number in counts:
            starts.append(start)
            start += (number + 3) // 4 * 4
        source.set_offset(start)
        return torch.tensor(starts, dtype=torch.int64)
