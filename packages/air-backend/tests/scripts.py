"""Random scripts: a small model is called in random surroundings, with events between; and what its caller sees."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from small_models import MODELS
from surroundings import CALLS, EVENTS, SURROUNDINGS, Step, floats, total


@dataclass(frozen=True)
class Call:
    """One call, in surroundings that are entered from left to right."""

    seed: int
    rows: int
    make: Callable[[nn.Module, Step, Tensor], Any]
    around: tuple[str, ...]
    has_gradient: bool
    backward: str
    """"inside" the surroundings, "outside" of them, or none."""

    def __str__(self) -> str:
        gradient = ", x requires grad" if self.has_gradient else ""
        inside = f" in {', '.join(self.around)}" if self.around else ""
        return f"{self.make.__name__}({self.rows} rows{gradient}){inside}, backward {self.backward or 'none'}"


@dataclass(frozen=True)
class Script:
    """A model, and what happens to it."""

    model: type[nn.Module]
    trains: bool
    steps: tuple[Call | Callable[[nn.Module], None], ...]

    def __str__(self) -> str:
        lines = [str(one) if isinstance(one, Call) else one.__name__ for one in self.steps]
        return "\n    ".join(
            [f"{self.model.__name__}, {'training' if self.trains else 'evaluation'}", *lines]
        )


def draw_call(chance: random.Random) -> Call:
    around = tuple(chance.choices(list(SURROUNDINGS), k=chance.choice((0, 0, 1, 1, 1, 2))))
    backward = chance.choice(("", "inside", "outside", "outside"))
    return Call(
        chance.randrange(100),
        chance.choice((3, 3, 3, 5)),
        chance.choice(CALLS),
        around,
        chance.random() < 0.4,
        backward,
    )


def draw_script(seed: int) -> Script:
    chance = random.Random(seed)
    steps: list[Any] = []
    for _ in range(chance.randint(2, 7)):
        is_event = bool(steps) and chance.random() < 0.25
        steps.append(chance.choice(EVENTS) if is_event else draw_call(chance))
        if not is_event and chance.random() < 0.4:
            steps.append(steps[-1])  # once more, the same
    return Script(chance.choice(MODELS), chance.random() < 0.6, tuple(steps))


@dataclass(frozen=True)
class Seen:
    """What a caller sees of one step."""

    raised: str | None
    values: tuple[Any, ...]


def play(script: Script, prepare: Callable[[nn.Module], Step], device: str) -> list[Seen]:
    """Runs a script with a model that `prepare` has compiled, or left as it is."""
    torch.manual_seed(0)
    model = script.model().to(device).train(script.trains)
    step = prepare(model)
    return [_made(one, model, step, device) for one in script.steps]


def _made(one: Any, model: nn.Module, step: Step, device: str) -> Seen:
    try:
        values = _called(one, model, step, device) if isinstance(one, Call) else one(model)
        raised = None
    except Exception as error:
        values, raised = (), f"{type(error).__name__}: {error}"
    raised = _waited(device) or raised
    weights = [*model.parameters(), *model.buffers()]
    gradients = [None if one.grad is None else one.grad.detach().clone() for one in model.parameters()]
    return Seen(raised, (values, [one.detach().clone() for one in weights], gradients))


def _waited(device: str) -> str | None:
    """What a device reports of work that it was given: later, and once for each kernel that failed."""
    failed = None
    for _ in range(16 if device != "cpu" else 0):
        try:
            torch.get_device_module(device).synchronize()
            break
        except RuntimeError as error:
            failed = failed or f"{type(error).__name__}: {error}"
    return failed


def _called(one: Call, model: nn.Module, step: Step, device: str) -> Any:
    kind = next(model.parameters()).dtype
    x = torch.randn(one.rows, 4, generator=torch.Generator().manual_seed(one.seed)).to(device, kind)
    x.requires_grad_(one.has_gradient)
    torch.manual_seed(one.seed)
    with contextlib.ExitStack() as stack:
        entered = [stack.enter_context(SURROUNDINGS[name](device)) for name in one.around]
        results = one.make(model, step, x)
        if one.backward == "inside":
            _backward(results)
        told = [mode.get_total_flops() for mode in entered if isinstance(mode, FlopCounterMode)]
    if one.backward == "outside":
        _backward(results)
    seen = [(value.detach().clone(), value.requires_grad, value.is_leaf) for value in floats(results)]
    return [seen, x.grad, told]


def _backward(results: Any) -> None:
    loss = total([one for one in floats(results) if one.requires_grad])
    if isinstance(loss, Tensor):
        loss.backward()


def difference(script: Script, expected: list[Seen], found: list[Seen]) -> tuple[int, str] | None:
    """The first step that is not as expected, and how."""
    close = (4e-2, 4e-2) if "autocast" in str(script) else (1e-3, 1e-4)
    for at, (one, other) in enumerate(zip(expected, found, strict=True)):
        if one.raised is not None or other.raised is not None:
            if one.raised is None:
                return at, f"raised {other.raised}"
            if other.raised is None:
                return at, f"did not raise {one.raised}"
            return None  # a script is over with its first error
        unlike = _unlike(one.values, other.values, close)
        if unlike is not None:
            return at, unlike
    return None


def _unlike(one: Any, other: Any, close: tuple[float, float]) -> str | None:
    left, right = tree_leaves(one), tree_leaves(other)
    largest = max(
        (float(a.abs().nan_to_num().max()) for a in left if isinstance(a, Tensor) and a.numel()), default=0
    )
    if len(left) != len(right):
        return f"{len(right)} values, not {len(left)}"
    for a, b in zip(left, right, strict=True):
        if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
            if a is not b and (isinstance(a, Tensor) or isinstance(b, Tensor) or a != b):
                return f"{b}, not {a}"
            continue
        if (a.dtype, a.shape, a.device) != (b.dtype, b.shape, b.device):
            return f"{b.dtype} {tuple(b.shape)} {b.device}, not {a.dtype} {tuple(a.shape)} {a.device}"
        relative, absolute = close  # a part may be as far off as the rounding of what it was summed with
        if not torch.allclose(a.cpu(), b.cpu(), relative, absolute * (1 + largest), equal_nan=True):
            return f"{b.flatten()[:4].tolist()}, not {a.flatten()[:4].tolist()}"
    return None
