"""The straight path from a caller's arguments to an engine and back, generated once per program."""

from __future__ import annotations

import linecache
import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any, NoReturn

import torch

from air_geir.engines._protocol import Compiled
from air_geir.errors import EngineError, WriteRefused
from air_geir.ir import Dim, Expr
from air_geir.program import (
    ArgInput,
    ArgOutput,
    ConstantOutput,
    GraphOutput,
    HostStep,
    InputBinding,
    OutputBinding,
    Program,
    SeedInput,
    SizeOutput,
    SymInput,
    SymPackInput,
    ViewInput,
    ViewOutput,
)

_serial = count()


def bind(
    program: Program, compiled: Compiled, *, generator: torch.Generator | None = None
) -> Callable[..., list[Any]]:
    """A function of the caller's arguments that runs the program and gives the caller's results.

    Everything that can be decided now is decided now: the function is straight-line Python without loops,
    dictionaries or isinstance tests.
    """
    names: dict[str, Any] = {
        "run": compiled,
        "vector": torch.tensor,
        "int64": torch.int64,
        "contiguous": torch.contiguous_format,
        "generator": _Rng(generator),
        **{f"constant{i}": b.value for i, b in enumerate(program.outputs) if isinstance(b, ConstantOutput)},
    }
    source = _source(program, names)
    filename = f"<air_geir binding {next(_serial)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), names)
    function: Callable[..., list[Any]] = names["call"]
    return function


def source_of(program: Program) -> str:
    """The source of the function `bind` makes; kept readable, it is part of `explain()`."""
    return _source(program, {})


def _source(program: Program, names: dict[str, Any]) -> str:
    """The source, and into `names` what it calls by a name."""
    lines = [f"def call({', '.join(f'a{i}' for i in range(program.num_args))}):"]
    used = sorted(program.used_symbols())
    late = [name for name in used if (known := program.symbols.get(name)) is not None and known.computed]
    lines.extend(f"    {name} = {_symbol(program, name)}" for name in used if name not in late)
    written = program.written_args()
    lines.extend(_refusal(program, written, names))
    lines.extend(_steps("b", program.before, program, names))
    laid = [b for b in program.inputs if isinstance(b, ArgInput) and not b.contiguous]
    dense = {b.arg: f"d{b.arg}" for b in laid}
    lines.extend(f"    d{b.arg} = a{b.arg}.contiguous(){_resolved(b)}" for b in laid)
    unread = sorted(program.strided & set(program.assigned.values()) - dense.keys())
    lines.extend(f"    d{arg} = a{arg}.new_empty(a{arg}.shape)" for arg in unread)
    dense.update((arg, f"d{arg}") for arg in unread)
    if not program.is_idle:
        inputs = [_input(b, dense, written) for b in program.inputs]
        targets = [program.assigned.get(i) for i in range(len(program.graph.outputs))]
        assigned = (
            [("None" if t is None else dense.get(t, f"a{t}")) for t in targets] if program.assigned else []
        )
        lines.append(f"    r = run(({_tuple(inputs)}), ({_tuple(assigned)}))")
    lines.extend(f"    a{target}.copy_({dense[target]})" for target in sorted(written) if target in dense)
    lines.extend(f"    {name} = {_symbol(program, name)}" for name in late)
    lines.extend(_steps("v", program.after, program, names))
    lines.append(f"    return [{', '.join(_output(i, b, program) for i, b in enumerate(program.outputs))}]")
    return "\n".join(lines) + "\n"


def _refusal(program: Program, written: Collection[int], names: dict[str, Any]) -> Iterator[str]:
    """Engines write where torch does not look: what inference mode made is refused before anything is written."""
    if not written or program.is_idle:
        return
    places = sorted(written)
    names |= {"inference_mode": torch.is_inference_mode_enabled, "refuse": partial(_refuse, program, places)}
    asked = " or ".join(f"a{place}.is_inference()" for place in places)
    yield f"    if not inference_mode() and ({asked}):"
    yield f"        refuse({', '.join(f'a{place}' for place in places)})"


def _refuse(program: Program, places: Sequence[int], *given: torch.Tensor) -> NoReturn:
    place = next(place for place, value in zip(places, given, strict=True) if value.is_inference())
    known = dict(enumerate(program.argument_promises)).get(place)
    raise WriteRefused(
        f"argument {place} was made in inference mode, and the graph writes it outside of inference mode",
        where=known.where if known else f"graph {program.graph.name}",
        advice="call inside torch.inference_mode(), or pass a clone that was made outside",
    )


def _steps(prefix: str, steps: Sequence[HostStep], program: Program, names: dict[str, Any]) -> Iterator[str]:
    for i, step in enumerate(steps):
        own = f"{prefix}{i}"
        source = _output(0, step.source, program, prefix)
        given = [_argument(f"{own}_{at}", value, names) for at, value in enumerate(step.arguments)]
        named = [f"{key}={_argument(f'{own}_{key}', value, names)}" for key, value in step.keywords.items()]
        names[f"make_{own}"] = step.function
        call = f"make_{own}({', '.join([source, *given, *named])})"
        if step.function is operator.getitem:
            call = f"{source}[{given[0]}]"
        yield f"    {own} = {call}"


def _argument(name: str, value: Any, names: dict[str, Any]) -> str:
    """A number, a size, or a list of them as text; anything else by a name."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_argument(f"{name}_{at}", one, names) for at, one in enumerate(value)) + "]"
    if isinstance(value, Expr):
        return str(value)
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    names[name] = value
    return name


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
    if origin.stride:
        return f"a{origin.arg}.stride({origin.dim})"
    if origin.offset:
        return f"a{origin.arg}.storage_offset()"
    if origin.computed:
        return f"r[{origin.arg}].item()" if origin.dim is None else f"r[{origin.arg}].shape[{origin.dim}]"
    return f"a{origin.arg}" if origin.dim is None else f"a{origin.arg}.shape[{origin.dim}]"


def _input(binding: InputBinding, dense: dict[int, str], written: Collection[int]) -> str:
    if isinstance(binding, ArgInput):
        return dense.get(binding.arg, f"a{binding.arg}")
    if isinstance(binding, ViewInput):
        if binding.arg in written:  # the graph writes there while it reads this
            return f"b{binding.step}.clone(memory_format=contiguous){_resolved(binding)}"
        return f"b{binding.step}.contiguous(){_resolved(binding)}"
    if isinstance(binding, SymInput):
        return f"vector({binding.value}, dtype=int64)"
    if isinstance(binding, SymPackInput):
        return f"vector({_list(binding.values)}, dtype=int64)"
    if isinstance(binding, SeedInput):
        return "generator.seed()"
    return f"generator.offsets({_list(binding.counts)})"


def _resolved(binding: ArgInput | ViewInput) -> str:
    return ".resolve_conj().resolve_neg()" if binding.turned else ""


def _list(values: Sequence[Dim]) -> str:
    return "[" + ", ".join(map(str, values)) + "]"


def _output(position: int, binding: OutputBinding, program: Program, steps: str = "v") -> str:
    if isinstance(binding, GraphOutput):
        target = program.assigned.get(binding.index)
        return f"r[{binding.index}]" if target is None else f"a{target}"
    if isinstance(binding, ArgOutput):
        return f"a{binding.arg}"
    if isinstance(binding, ViewOutput):
        return f"{steps}{binding.step}"
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
