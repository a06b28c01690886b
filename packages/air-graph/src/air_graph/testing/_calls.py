"""Random scripts around a program: inputs that alias, calls, writes between them, outputs fed back, training."""

from __future__ import annotations

import random
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from air_graph.testing._case import Case, Statement
from air_graph.testing._inputs import LAYOUTS, Plan, draw_plan, draw_symbols, tensor
from air_graph.testing._programs import FAMILIES, draw_program
from air_graph.testing._run import look, names_of, without_dynamo
from air_graph.testing._scope import EAGER_REFUSES, overlaps_itself

_NAMES = ("a", "b", "c")
_OF_SLOTS = ("contiguous", "contiguous", "offset", "sliced")
_SCOPES = ("with torch.no_grad(): ", "with torch.no_grad(): ", "with torch.inference_mode(): ")


@dataclass
class Session:
    """The script while it is drawn; every line is executed with the eager function as it is added."""

    chance: random.Random
    device: str
    plans: tuple[Plan, ...]
    symbols: dict[str, int]
    names: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    seed: int = 0
    calls: int = 0
    arguments: list[tuple[str, ...]] = field(default_factory=list)
    is_over: bool = False
    takes_number: bool = False

    def add(self, text: str, is_harmless: bool = False) -> bool:
        """Takes a line that eager executes; the script ends with one that it refuses after it may have written."""
        if self.is_over:
            return False
        before = dict(self.names)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(text, self.names)
                look(self.names)
        except EAGER_REFUSES:
            _wait_for_errors(self.device)
            self.names.clear()
            self.names.update(before)
            self.is_over = not is_harmless
            return False
        self.lines.append(text)
        return True

    def value(self, text: str) -> Any:
        try:
            return eval(text, dict(self.names))
        except EAGER_REFUSES:
            return None

    # inputs

    def inputs(self) -> tuple[str, ...]:
        """Names of inputs for one call, made now: values of their own, or the memory of another input."""
        made: list[str] = []
        for letter, plan in zip(_NAMES, self.plans, strict=False):
            name = f"{letter}{self.calls}"
            shared = self._shared(made, plan) if made and not plan.needs_gradient else None
            self.seed += 1
            text = shared or tensor(plan, plan.sizes(self.symbols), self.seed, self.device)
            self.add(f"{name} = {text}", is_harmless=True)
            made.append(name)
        if self.takes_number:
            made.append(str(self.chance.choice((2, 2, 3, 4, 1))))
        return tuple(made)

    def _shared(self, made: Sequence[str], plan: Plan) -> str | None:
        if self.chance.random() > 0.25:
            return None
        base = self.chance.choice(made)
        suffix = self.chance.choice(("", "", "[0]", ".t()", "[1:]", "[...]", ".reshape(-1)", "[:, 1:]"))
        return base + suffix if isinstance(self.value(base + suffix), Tensor) else None

    # steps

    def call(self, names: Sequence[str], is_harmless: bool = False) -> bool:
        result = f"r{self.calls}"
        scope = self.chance.choice(_SCOPES) if self.chance.random() < 0.12 else ""
        if not self.add(f"{scope}{result} = f({', '.join(names)})", is_harmless):
            return False
        self.arguments.append(tuple(names))
        self.calls += 1
        return True

    def outputs(self) -> list[str]:
        """Paths of all tensors that calls have returned and the script still holds."""
        return [
            path
            for path, seen in look(self.names).items()
            if path[0] == "r" and isinstance(seen.value, Tensor)
        ]


def _wait_for_errors(device: str) -> None:
    """A device reports errors later, once for each kernel: they must not surface in the lines that follow."""
    if torch.device(device).type in ("cpu", "meta"):
        return
    for _ in range(16):
        try:
            torch.get_device_module(device).synchronize()
        except RuntimeError:
            continue
        return


def draw_case(
    seed: int,
    options: Sequence[Mapping[str, Any]] = ({},),
    device: str = "cpu",
    families: Sequence[str] = tuple(FAMILIES),
) -> Case | None:
    """The case of a seed; None where eager runs no part of it."""
    with without_dynamo():
        return _drawn(seed, options, device, families)


def _drawn(
    seed: int, options: Sequence[Mapping[str, Any]], device: str, families: Sequence[str]
) -> Case | None:
    chance = random.Random(seed)
    dynamic = chance.choice((False, False, False, True, True, None))
    trains = chance.random() < 0.2
    plans = tuple(draw_plan(chance, trains) for _ in range(chance.choice((1, 2, 2, 3))))
    session = Session(chance, device, plans, draw_symbols(chance), {"torch": torch})
    if chance.random() < 0.15:
        _add_module(session)
    session.takes_number = chance.random() < 0.15
    first = session.inputs()
    if not all(name in session.names for name in first if not name.isdigit()):
        return None  # the device has no such tensors
    program = draw_program(chance, _parameters(session, first), dynamic is not False, families)
    body = (Statement("w = m.w", "module"), *program.body) if "m" in session.names else program.body
    parameters = (*_NAMES[: len(plans)], *(("n",) if session.takes_number else ()))
    case = Case(parameters, body, program.returns, (), dynamic, chance.choice(options), program.is_exact)
    lines, session.lines, session.names = session.lines, [], names_of(case)
    if not all(session.add(line) for line in lines) or not session.call(first):
        return None
    for _ in range(chance.choice((0, 1, 2, 2, 3, 4))):
        if not session.is_over:
            _step(session, program.is_exact)
    return replace(case, script=tuple(session.lines))


def _add_module(session: Session) -> None:
    """A module whose parameter or buffer the function reads: an input that the caller does not pass."""
    plan = replace(draw_plan(session.chance, False), needs_gradient=False)
    value = tensor(plan, plan.sizes(session.symbols), 5, session.device)
    is_parameter = plan.dtype == "float32" and session.chance.random() < 0.6
    session.add("m = torch.nn.Module()")
    session.add(f"m.w = torch.nn.Parameter({value})" if is_parameter else f'm.register_buffer("w", {value})')


def _parameters(session: Session, names: Sequence[str]) -> dict[str, Any]:
    """The first inputs under the names of the parameters; their memory stays shared."""
    values = dict(zip(_NAMES, (session.names[name] for name in names if not name.isdigit()), strict=False))
    if session.takes_number:
        values["n"] = int(names[-1])
    return values | ({"w": session.names["m"].w} if "m" in session.names else {})


def _step(session: Session, is_exact: bool) -> None:
    trains = any(plan.needs_gradient for plan in session.plans) or "m" in session.names
    step = session.chance.choice(_STEPS + (_backward,) * 6 if trains else _STEPS)
    if step is _fed_back and not is_exact:
        return
    step(session)


def _again(session: Session) -> None:
    """The same inputs, some of them, or others that lie alike."""
    names = session.chance.choice(session.arguments)
    if session.chance.random() < 0.5:
        names = session.inputs()
    elif session.chance.random() < 0.3:
        names = tuple(
            old if session.chance.random() < 0.5 else new
            for old, new in zip(names, session.inputs(), strict=True)
        )
    session.call(names)


def _other_layout(session: Session) -> None:
    session.plans = tuple(replace(plan, layout=session.chance.choice(LAYOUTS)) for plan in session.plans)
    session.call(session.inputs(), is_harmless=True)


def _other_sizes(session: Session) -> None:
    kept, session.symbols = session.symbols, draw_symbols(session.chance)
    if session.chance.random() < 0.1:
        session.symbols[session.chance.choice("RC")] = session.chance.choice((0, 1))
    if not session.call(session.inputs(), is_harmless=True):
        session.symbols = kept


_WRITES = ("{}.mul_(2)", "{}.add_(1)", "{}.zero_()", "{}.fill_(3)", "{}[0] = 1", "{}.copy_({}.flip(0))")


def _write(session: Session, paths: Sequence[str]) -> None:
    paths = [
        p for p in paths if isinstance(session.value(p), Tensor) and not overlaps_itself(session.value(p))
    ]
    if paths:
        path = session.chance.choice(paths)
        text = session.chance.choice(_WRITES).format(path, path)
        gradient = bool(session.value(path).requires_grad)
        session.add(f"with torch.no_grad(): {text}" if gradient else text)


def _write_input(session: Session) -> None:
    names = session.chance.choice(session.arguments)
    _write(session, (*names, "m.w") if "m" in session.names else names)
    if session.chance.random() < 0.7:
        session.call(names)


def _write_output(session: Session) -> None:
    _write(session, session.outputs())
    if session.chance.random() < 0.5:
        _again(session)


def _fed_back(session: Session) -> None:
    """An output, or a part of one, takes the place of an input."""
    outputs = session.outputs()
    if not outputs:
        return
    names = list(session.chance.choice(session.arguments))
    place = session.chance.randrange(len(session.plans))
    replaced = session.value(names[place])
    fitting = [
        p for p in outputs if isinstance(replaced, Tensor) and session.value(p).shape == replaced.shape
    ]
    names[place] = session.chance.choice(fitting or outputs)
    session.call(names)


def _backward(session: Session) -> None:
    """Gradients of an output: into the leaves, or taken, or taken away from the leaves and kept, or differentiated."""
    outputs = [path for path in session.outputs() if session.value(path).requires_grad]
    leaves = [n for n, v in session.names.items() if isinstance(v, Tensor) and v.requires_grad and v.is_leaf]
    if "m" in session.names and session.names["m"].w.requires_grad:
        leaves.append("m.w")
    if not outputs or not leaves:
        return
    path = session.chance.choice(outputs)
    keep = f"g{len(session.lines)}"
    kind = session.chance.randrange(4)
    if kind == 3:
        wanted = f"{path}.real.sin().sum(), [{', '.join(leaves)}], create_graph=True, allow_unused=True"
        session.add(f"{keep} = torch.autograd.grad({wanted})")
        session.add(f"sum(g.abs().square().sum() for g in {keep} if g is not None).backward()")
    elif kind == 0:
        session.add(f"{keep} = torch.autograd.grad({path}.sum(), [{', '.join(leaves)}], allow_unused=True)")
    else:
        session.add(f"{path}.sum().backward()")
        if kind == 1:
            leaf = session.chance.choice(leaves)
            session.add(f"{keep}, {leaf}.grad = {leaf}.grad, None")
    if session.chance.random() < 0.5:
        _again(session)


def _slots(session: Session) -> None:
    """Parts of one memory in turn, as slots of a cache: what a later call is given begins elsewhere in its storage."""
    place = session.chance.randrange(len(session.plans))
    plan = session.plans[place]
    memory = f"s{len(session.lines)}"
    slots = replace(
        plan, shape=(3, *plan.shape), layout=session.chance.choice(_OF_SLOTS), needs_gradient=False
    )
    session.seed += 1
    names = list(session.inputs())
    if not session.add(
        f"{memory} = {tensor(slots, slots.sizes(session.symbols), session.seed, session.device)}"
    ):
        return
    for slot in session.chance.sample(range(3), session.chance.choice((2, 3))):
        names[place] = f"{memory}[{slot}]"
        if not session.call(names, is_harmless=True):
            return


def _dropped(session: Session) -> None:
    """A result is let go before another call."""
    results = [name for name in session.names if name[0] == "r" and name[1:].isdigit()]
    if len(results) > 1:
        session.add(f"del {session.chance.choice(results)}")
        _again(session)


_STEPS = (
    _again,
    _again,
    _other_layout,
    _other_sizes,
    _write_input,
    _write_output,
    _fed_back,
    _dropped,
    _slots,
)
