"""Runs the demo's model in eager and in every mode, compares the logits, and times the decode steps.

The modes take turns within one process, so that their times can be compared; what is shown is the median of the
decode steps. On air-sim a time says nothing about an NPU.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from air_backend import _records
from air_backend._backend import get_npu_backend
from air_backend._ground import Ground
from air_backend.demo._llama import Llama, LlamaSize
from air_backend.demo.errors import DemoMismatch
from air_config import CompilerConfig, variables
from air_graph.executors import Executor
from air_graph.progress import Progress, progress_on_terminal, showing

PROMPT: Final = 24
STEPS: Final = 20
ROUNDS: Final = 3
ALLOWED: Final = 1e-4


@dataclass(frozen=True)
class Row:
    """What one mode did: times, the largest difference from eager, and what was compiled for it."""

    mode: str
    first_call_s: float
    prefill_ms: float
    decode_ms: float
    difference: float
    graphs: int
    captures: int
    copies_removed: int


@dataclass(frozen=True)
class DemoReport:
    """All rows, and the ground they were measured on."""

    ground: str
    note: str
    rows: tuple[Row, ...]


class _Candidate:
    """One mode with a model of its own and the times it needed so far."""

    def __init__(self, mode: str, model: Llama, call: Callable[..., Any], ground: Ground) -> None:
        self.mode, self.model, self.call, self.ground = mode, model, call, ground
        self.prefills: list[float] = []
        self.steps: list[float] = []
        self.first = 0.0
        self.logits: list[torch.Tensor] = []

    def timed(self, tokens: torch.Tensor, position: torch.Tensor) -> tuple[torch.Tensor, float]:
        self.ground.synchronize()
        started = time.perf_counter()
        with torch.no_grad():
            logits = self.call(tokens, position)
        self.ground.synchronize()
        return logits, time.perf_counter() - started

    def round(self, prompt: torch.Tensor, following: torch.Tensor) -> None:
        """A prefill and all decode steps, from an empty cache; always the same tokens."""
        self.model.forget()
        device = prompt.device
        logits, seconds = self.timed(prompt, torch.arange(PROMPT, device=device))
        self.prefills.append(seconds)
        self.logits = [logits.clone()]
        for step in range(STEPS):
            position = torch.tensor([PROMPT + step], device=device)
            logits, seconds = self.timed(following[:, step : step + 1], position)
            self.steps.append(seconds)
            self.logits.append(logits.clone())


def config_of(mode: str) -> CompilerConfig:
    """The configuration that stands behind a mode's name."""
    config = CompilerConfig()
    config.set("mode", "reduce-overhead" if mode == "run_eagerly" else mode)
    config.debug.run_eagerly = mode == "run_eagerly"
    return config


def compiled(model: Llama, mode: str) -> Callable[..., Any]:
    """The model in one of the demo's modes; `"eager"` is the model itself."""
    if mode == "eager":
        return model
    return torch.compile(model, backend=get_npu_backend(compiler_config=config_of(mode)), dynamic=False)


def difference(ours: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> float:
    """The largest difference between logits and those that are wanted."""
    return max((a.cpu() - b.cpu()).abs().max().item() for a, b in zip(ours, wanted, strict=True))


def _candidate(mode: str, size: LlamaSize, weights: dict[str, torch.Tensor], ground: Ground) -> _Candidate:
    model = Llama(size)
    model.load_state_dict(weights)
    model = model.to(ground.device).eval()
    return _Candidate(mode, model, compiled(model, mode), ground)


def run_demo(ground: Ground, size: LlamaSize | None = None) -> DemoReport:
    """Runs everything; raises `DemoMismatch` when a mode computes something else than eager."""
    torch.manual_seed(0)
    size = size or LlamaSize()
    weights = Llama(size).state_dict()
    prompt = torch.randint(size.vocabulary, (1, PROMPT)).to(ground.device)
    following = torch.randint(size.vocabulary, (1, STEPS)).to(ground.device)
    modes = ("eager", "run_eagerly", *ground.modes)
    wanted = variables.switch("ACLGRAPH_PROGRESS", True)
    bar = progress_on_terminal(len(modes) * (1 + ROUNDS), unit="rounds", wanted=wanted)
    candidates, captures = [], {}
    with showing(bar, "demo"):
        for mode in modes:
            before = len(_records.alive())
            candidate = _candidate(mode, size, weights, ground)
            started = time.perf_counter()
            candidate.round(prompt, following)
            candidate.first = time.perf_counter() - started
            candidate.prefills.clear()
            candidate.steps.clear()
            candidates.append(candidate)
            captures[mode] = _records.alive()[before:]
            _advance(bar, f"demo: compiled {mode}")
        for _ in range(ROUNDS):
            for candidate in candidates:
                candidate.round(prompt, following)
                _advance(bar, f"demo: {candidate.mode}")
    rows = tuple(_row(candidate, candidates[0], captures[candidate.mode]) for candidate in candidates)
    return DemoReport(str(ground.device), ground.note, rows)


def _advance(bar: Progress | None, text: str) -> None:
    if bar is not None:
        bar.advance(text=text)


def _row(candidate: _Candidate, eager: _Candidate, records: list[Any]) -> Row:
    differs = difference(candidate.logits, eager.logits)
    if not differs <= ALLOWED:
        raise DemoMismatch(candidate.mode, differs, ALLOWED)
    return Row(
        mode=candidate.mode,
        first_call_s=candidate.first,
        prefill_ms=1e3 * statistics.median(candidate.prefills),
        decode_ms=1e3 * statistics.median(candidate.steps),
        difference=differs,
        graphs=len(records),
        captures=sum(_captures(run) for _, run in records),
        copies_removed=sum(record.copies_removed for record, _ in records),
    )


def _captures(run: Executor) -> int:
    """How often an executor captured; 0 for one that does not capture."""
    return int(run.stats().get("captures", 0))
