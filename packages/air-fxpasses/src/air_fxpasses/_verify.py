"""Proves one step of a pipeline: the graph is well formed, what is known about it is true, and it still computes
the same.

Numerics are checked on the inputs given, or on generated ones when only fake inputs are there: outputs, the
inputs as they are afterwards, layouts, and who shares memory with whom. Collectives are not made: `_alone`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.fx import GraphModule

from air_fxpasses._alone import why_not_alone
from air_fxpasses._compare import difference
from air_fxpasses._facts import Facts
from air_fxpasses._run import ONLY_BYTES, Outcome, copied, run_graph
from air_graph import hint_of

log = logging.getLogger(__name__)

_SEED = 20
_LINT_ERRORS = (RuntimeError, AssertionError)


@dataclass
class Proof:
    """What the graph did before the first step, and the checks every later state must pass."""

    inputs: list[Any] | None
    expected: Outcome | None
    contradictions: frozenset[str]
    """Nodes whose recorded value was wrong before any pass: tracing under decompositions leaves some."""
    unchecked: str = ""
    """Why numerics are not checked; empty when they are."""

    @classmethod
    def start(cls, gm: GraphModule, facts: Facts, example_inputs: Sequence[Any] | None) -> Proof:
        """Runs the graph as it is."""
        known = frozenset(facts.contradictions())
        with unset_fake_temporarily():
            inputs = real_inputs(gm, example_inputs)
        if inputs is None:
            return cls(None, None, known, "no inputs can be made for this graph")
        if (why := why_not_alone(gm)) is not None:
            log.warning("numerics are not verified: %s", why)
            return cls(inputs, None, known, why)
        try:
            return cls(inputs, _seeded(gm, inputs), known)
        except (
            Exception
        ) as error:  # the untouched graph may refuse made-up inputs in any way: noted, not hidden
            reason = (
                f"the graph before the passes does not run on these inputs: {type(error).__name__}: {error}"
            )
            log.warning("numerics are not verified: %s", reason)
            return cls(inputs, None, known, reason)

    def violation(self, gm: GraphModule, facts: Facts, rtol: float) -> str | None:
        """What is wrong with the graph after a step; `None` when the step is proven."""
        return _lint(gm) or facts.falsehood(self.contradictions) or self._numerics(gm, rtol)

    def _numerics(self, gm: GraphModule, rtol: float) -> str | None:
        if self.inputs is None or self.expected is None:
            return None
        try:
            outcome = _seeded(gm, self.inputs)
        except Exception as error:  # whatever the changed graph raises is the finding
            return f"it no longer runs: {type(error).__name__}: {error}"
        with unset_fake_temporarily():
            found = difference(self.expected, outcome, rtol)
        if found is None:
            self.expected = outcome
        return found


def _seeded(gm: GraphModule, inputs: Sequence[Any]) -> Outcome:
    # a backend is called under the fake mode of tracing, in which nothing is computed
    with unset_fake_temporarily(), torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(_SEED)
        return run_graph(gm, copied(inputs), alone=True)


def _lint(gm: GraphModule) -> str | None:
    try:
        gm.graph.lint()
    except _LINT_ERRORS as error:
        return f"the graph is malformed: {error}"
    return None


def real_inputs(gm: GraphModule, example_inputs: Sequence[Any] | None) -> list[Any] | None:
    """The given inputs where they are real; otherwise inputs of the size and type of the fake ones."""
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    given = list(example_inputs or [n.meta.get("val") for n in placeholders])
    if len(given) != len(placeholders):
        return None
    generator = torch.Generator().manual_seed(_SEED)
    made = [_real(value, generator) for value in given]
    return (
        None if any(value is None and g is not None for value, g in zip(made, given, strict=True)) else made
    )


def _real(value: Any, generator: torch.Generator) -> Any:
    if isinstance(value, FakeTensor):
        return _generated(value, generator)
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return value.node.hint if value.node.has_hint() else None
    return value


def _generated(fake: torch.Tensor, generator: torch.Generator) -> torch.Tensor | None:
    """Values that are valid as data and, being 0 or 1, as indices of most things."""
    layout = [hint_of(v) for v in (*fake.size(), *fake.stride(), fake.storage_offset())]
    if fake.layout is not torch.strided or any(v is None for v in layout):
        return None
    known = [v for v in layout if v is not None]
    size, stride, offset = known[: fake.dim()], known[fake.dim() : -1], known[-1]
    length = offset + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if 0 not in size else 1
    if fake.dtype in ONLY_BYTES:
        flat = torch.randint(0, 256, (length,), generator=generator, dtype=torch.uint8).view(fake.dtype)
        return flat.to(device=fake.device).as_strided(size, stride, offset)
    if fake.dtype.is_floating_point or fake.dtype.is_complex:
        flat = torch.randn(length, generator=generator, dtype=torch.float32)
    else:
        flat = torch.randint(0, 2, (length,), generator=generator)
    return flat.to(dtype=fake.dtype, device=fake.device).as_strided(size, stride, offset)
