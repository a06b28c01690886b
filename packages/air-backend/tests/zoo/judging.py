"""Judges one architecture: what eager gives is right, and `aot_eager` says what torch itself can compile.

Every compiled model is called twice, with other numbers in the second call: what a graph has baked in shows then.
Results are compared in their structure, types and sizes, and in their values relative to the largest of a tensor; those
that are further away than is usual are held against the model in double precision, as eager's are (`rounding`). Where
eager draws random numbers in a call, values are not compared, and the row says so. A step of training is judged by its
gradients and buffers as well.
"""

from __future__ import annotations

import copy
import math
import re
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor, fx, nn
from torch._dynamo.utils import counters
from torch.utils._pytree import tree_flatten, tree_map_only

from air_backend import CompilerConfig, _records, get_npu_backend
from zoo import rounding
from zoo.made import Made
from zoo.results import Kind, Outcome
from zoo.steps import Step, Trained, inference

TOLERANCE: Final = 1e-4
"""Of the largest value of a tensor; both modes compute in the type of the model."""
SMALL_GRADIENT: Final = 0.1
"""Of the largest gradient of a model; one that is smaller is compared with this: the exact one may be zero."""
SEEDS: Final = (1, 2)
TORCH: Final = "aot_eager"
MODES: Final = ("reduce-overhead", "max-autotune")
REASON: Final = 240
"""So much of an error is kept."""
_FOLDERS: Final = re.compile(r"(?<![\w.])/(?:[^\s/:]+/)+")
"""Of one machine; the name of the file is kept."""


def eager(made: Made, device: torch.device, step: Step = inference) -> tuple[list[Any], bool]:
    """What the calls give, and whether that depends on numbers that are drawn during a call."""
    model = on(made.model, device)
    results = [called(model, made, seed, device, step) for seed in SEEDS]
    again = called(on(made.model, device), made, SEEDS[0], device, step, drawn_by=77)
    return results, difference(results[0], again, exact=True) is not None


def on(model: nn.Module, device: torch.device) -> nn.Module:
    """A copy on a device, as the library made it: a call may leave something in the model."""
    return copy.deepcopy(model).to(device)


def called(
    model: Callable[..., Any],
    made: Made,
    seed: int,
    device: torch.device,
    step: Step = inference,
    drawn_by: int = 3,
) -> Any:
    """A call with the inputs of a seed; what it gives, on the CPU."""
    inputs = tree_map_only(Tensor, lambda value: value.to(device), made.drawn(seed))
    torch.manual_seed(drawn_by)
    return tree_map_only(Tensor, lambda value: value.detach().cpu().clone(), step(model, inputs))


class _OneTrace:
    """A backend that hands every graph of Dynamo to several others; which of them a call runs is `chosen`.

    Dynamo takes most of the time of a compilation, and it does the same for all of them.
    """

    def __init__(self, ways: Sequence[str]) -> None:
        self.backends = {way: backend_of(way) for way in ways}
        self.chosen = ways[0]
        self.errors: dict[str, Exception] = {}
        self.seconds = dict.fromkeys(ways, 0.0)

    def __call__(self, gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        made = {}
        for way, backend in self.backends.items():
            begun = time.perf_counter()
            try:
                made[way] = backend(_copied(gm), example_inputs)
            except Exception as error:
                self.errors[way] = error
            self.seconds[way] += time.perf_counter() - begun

        def run(*args: Any) -> Any:
            if self.chosen not in made:
                raise self.errors[self.chosen]
            return made[self.chosen](*args)

        return run


def _copied(gm: fx.GraphModule) -> fx.GraphModule:
    graph = fx.Graph()
    graph.output(graph.graph_copy(gm.graph, {}))
    copied = fx.GraphModule(gm, graph)
    copied.meta = dict(gm.meta)
    return copied


def backend_of(way: str) -> Callable[..., Any]:
    """What `torch.compile` is given for `aot_eager`, or for a mode of AIR."""
    if way == TORCH:
        found: Callable[..., Any] = torch._dynamo.lookup_backend(way)
        return found
    config = CompilerConfig()
    config.set("mode", way)
    made: Callable[..., Any] = get_npu_backend(compiler_config=config)
    return made


def together(
    made: Made,
    ways: Sequence[str],
    expected: list[Any],
    is_random: bool,
    device: torch.device,
    step: Step = inference,
) -> dict[str, Outcome]:
    """The ways that do well when one trace serves all; the others have to be judged alone, and have no entry."""
    _forget()
    model = on(made.model, device)
    every = _OneTrace(ways)
    good: dict[str, Outcome] = {}
    spent = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = torch.compile(model, backend=every, dynamic=False)
        for way in ways:
            every.chosen = way
            _as_made(model, made.model)
            begun = time.perf_counter()
            try:
                results = [called(run, made, SEEDS[0], device, step)]
                first = time.perf_counter() - begun
                if way == ways[0]:  # which traced for all
                    spent = first - sum(every.seconds.values())
                    first = 0.0
                results += [called(run, made, seed, device, step) for seed in SEEDS[1:]]
            except Exception:
                continue
            if _first_difference(expected, results, is_random) is None:
                good[way] = _counted(Outcome("same", seconds=spent + every.seconds[way] + first), way)
    return good


def _as_made(model: nn.Module, first: nn.Module) -> None:
    """Gives parameters and buffers the values they had before the first call, where they lie."""
    values = first.state_dict(keep_vars=True)
    with torch.no_grad():
        for name, value in model.state_dict(keep_vars=True).items():
            if isinstance(value, Tensor) and name in values and value.shape == values[name].shape:
                value.copy_(values[name])


def _forget() -> None:
    torch._dynamo.reset()
    _records.close_all()
    counters.clear()


def _first_difference(expected: list[Any], results: list[Any], is_random: bool) -> str | None:
    found = (_between(want, got, is_random) for want, got in zip(expected, results, strict=True))
    return next(filter(None, found), None)


def _between(want: Any, got: Any, is_random: bool) -> str | None:
    if not isinstance(want, Trained):
        return difference(want, got, shape_only=is_random)
    largest = max(
        float(each.abs().max()) for each in want.gradients.values() if each is not None and each.numel()
    )
    floors = (0.0, SMALL_GRADIENT * largest, 0.0)
    for part, one, other, floor in zip(Trained._fields, want, got, floors, strict=True):
        if found := difference(one, other, shape_only=is_random, floor=floor):
            return f"{part}: {found}"
    return None


def compiled(
    made: Made,
    backend: str,
    expected: list[Any],
    is_random: bool,
    device: torch.device,
    step: Step = inference,
) -> Outcome:
    """How a backend, or a mode of AIR, does."""
    _forget()
    model = on(made.model, device)
    begun = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = torch.compile(model, backend=backend_of(backend), dynamic=False)
            results = [called(run, made, SEEDS[0], device, step)]
            seconds = time.perf_counter() - begun
            results += [called(run, made, seed, device, step) for seed in SEEDS[1:]]
    except Exception as error:
        return Outcome("error", reason=told(error), seconds=time.perf_counter() - begun)
    found = _first_difference(expected, results, is_random)
    excuse = _rounding(made, expected, results, step) if found else None
    kind: Kind = "differs" if found and not excuse else "same"
    return _counted(Outcome(kind, reason=excuse or found or "", seconds=seconds), backend)


def _counted(outcome: Outcome, way: str) -> Outcome:
    """With what the records of this process say about pieces and captures of a mode."""
    pieces = captures = 0
    left: set[str] = set()
    for record, run in _records.alive():
        if record.settings.mode != way:
            continue
        pieces += len(run.pieces) or 1
        stats = run.stats()
        captures += sum(told.get("captures", 0) for told in (stats, stats.get("split", {})))
        left |= {each.target for each in run.eager}
    graphs = counters["stats"]["unique_graphs"]
    return outcome._replace(graphs=graphs, pieces=pieces, captures=captures, eagerly=tuple(sorted(left)))


def told(error: BaseException) -> str:
    """The kind of an error, its first words, and the deepest line that is not torch's."""
    while isinstance(error, torch._dynamo.exc.BackendCompilerFailed) and error.inner_exception is not None:
        error = error.inner_exception
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/torch/" not in f.filename]
    place = f" [{frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].lineno}]" if frames else ""
    words = " ".join(_FOLDERS.sub("", str(error)).split())
    return f"{type(error).__name__}: {words[:REASON]}{place}"


def difference(
    want: Any, got: Any, *, exact: bool = False, shape_only: bool = False, floor: float = 0.0
) -> str | None:
    """The first place in which two results differ, and how; None where they are the same."""
    wanted, want_spec = tree_flatten(want)
    found, got_spec = tree_flatten(got)
    if want_spec != got_spec:
        return f"the structure: {str(got_spec)[:80]} instead of {str(want_spec)[:80]}"
    for number, (one, other) in enumerate(zip(wanted, found, strict=True)):
        if (fault := _leaf(one, other, 0.0 if exact else TOLERANCE, shape_only, floor)) is not None:
            name = list(want)[number] if isinstance(want, dict) and len(want) == len(wanted) else number
            return f"result {name} of {len(wanted)}: {fault}"
    return None


def _leaf(want: Any, got: Any, tolerance: float, shape_only: bool, floor: float) -> str | None:
    if type(want) is not type(got):
        return f"{type(got).__name__} instead of {type(want).__name__}"
    if not isinstance(want, Tensor):
        same = shape_only or not isinstance(want, (bool, int, float, str)) or want == got
        return None if same else f"{got} instead of {want}"
    if (want.shape, want.dtype) != (got.shape, got.dtype):
        return f"{tuple(got.shape)} {got.dtype} instead of {tuple(want.shape)} {want.dtype}"
    return None if shape_only else _values(want, got, tolerance, floor)


def _values(want: Tensor, got: Tensor, tolerance: float, floor: float) -> str | None:
    if torch.equal(want, got) or not want.numel():
        return None
    if not want.is_floating_point() and not want.is_complex():
        return f"{int((want != got).sum())} of {want.numel()} elements differ"
    want, got = (value.to(torch.complex128 if value.is_complex() else torch.float64) for value in (want, got))
    finite = want.isfinite()
    if not torch.equal(finite, got.isfinite()) or not torch.equal(
        want[~finite].nan_to_num(), got[~finite].nan_to_num()
    ):
        return "what is not finite differs"
    want, got = want[finite], got[finite]
    if not want.numel():
        return None
    off = _off(want, got, floor)
    return None if off <= tolerance else f"off by {off:.2g} of the largest value"


def _off(want: Tensor, got: Tensor, floor: float = 0.0) -> float:
    """The largest difference, as a part of the largest value."""
    return float((want - got).abs().max()) / max(float(want.abs().max()), floor, math.ulp(1.0))


def _rounding(made: Made, expected: list[Any], results: list[Any], step: Step) -> str | None:
    """What double precision says for results that differ; None where it does not excuse them."""
    try:
        exact, _ = eager(rounding.doubled(made), torch.device("cpu"), step)
    except Exception:  # the model, or an operator, has types of its own
        return None
    return rounding.explained(exact, expected, results, _off, TOLERANCE)
