"""Random programs run in other ways than by `torch.compile` alone.

They are pinned, padded, given declared sizes, read from files, and compiled as traced graphs.

Only programs for inference are drawn. What torch alone gets wrong in the same way is left out.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch import Tensor
from torch._dynamo.backends.debugging import aot_eager
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_map

from air_backend import compile_fx, pin
from air_backend._given import in_a_tuple
from air_backend.errors import CannotPin, PinnedArgument
from air_backend.inference import cache_compile, set_dim_buckets, set_dim_gears
from air_fxpasses.errors import DeclarationRefused
from air_graph import copied
from air_graph.testing import Case, differences, draw_case, run_case

pytestmark = pytest.mark.slow
Function = Callable[..., Any]

LEFT_OUT: Final = ("requires_grad", "backward", "inference_mode", "torch.nn.Module", "graph_break")
#: Strides that reach no second element may differ in max-autotune (docs/limits.md), and a result that a traced graph
#: gives twice may be two tensors of one memory.
IGNORED: Final = ("stride of a size 1", "stride of an empty tensor", "identity")
#: What a copy of a pinned result loses.
OF_COPIES: Final = (*IGNORED, "storage", "offset", "stride", "bits")


@dataclass(frozen=True)
class Way:
    """How a function is run: what is right, what is judged, and torch alone."""

    judged: Callable[[Case, str, Path], Callable[[Function], Function]]
    alone: Callable[[Case], Callable[[Function], Function]]
    right: Callable[[Function], Function] | None = None
    times: int = 1
    ignored: Sequence[str] = IGNORED
    left_out: Sequence[str] = LEFT_OUT
    refusals: Sequence[str] = ()
    """Words of the errors by which it says that a program is none for it."""


def aot(case: Case, fullgraph: bool = False) -> Callable[[Function], Function]:
    return lambda f: torch.compile(f, backend="aot_eager", dynamic=case.dynamic, fullgraph=fullgraph)


def kept(case: Case, mode: str, folder: Path) -> Callable[[Function], Function]:
    options = {"mode": mode}
    return lambda f: cache_compile(f, cache_dir=folder, dynamic=bool(case.dynamic), options=options)


def key_of(args: Sequence[Any]) -> tuple[Any, ...]:
    """What a pinned call and a traced graph are for: sizes, strides, types, and which arguments share memory."""
    tensors = [value for value in args if isinstance(value, Tensor)]
    shared = [a.untyped_storage()._cdata == b.untyped_storage()._cdata for a in tensors for b in tensors]
    shapes = [
        (value.shape, value.stride(), value.dtype) if isinstance(value, Tensor) else value for value in args
    ]
    return (*shapes, *shared)


def pinned(case: Case, mode: str, folder: Path) -> Callable[[Function], Function]:
    """Each shape is pinned with copies of its first arguments; what cannot be pinned is called as it is."""

    def prepare(function: Function) -> Function:
        options: Any = {"mode": mode}
        compiled = torch.compile(function, backend="air", dynamic=case.dynamic, options=options)
        handles: dict[Any, Function | None] = {}

        def call(*args: Any) -> Any:
            key = key_of(args)
            if key not in handles:
                try:
                    with torch.no_grad():
                        handles[key] = pin(compiled, *copied(list(args)))
                except CannotPin:
                    handles[key] = None
            handle = handles[key]
            try:
                if handle is not None:  # later calls write its results: what is kept is a copy of them
                    results, own = handle(*args), {id(value): value for value in args}
                    return tree_map(lambda one, other: own.get(id(one), other), results, copied(results))
            except PinnedArgument:  # a tensor that the capture reads where it lies
                pass
            return compiled(*args)

        return call

    return prepare


def pinned_alone(case: Case) -> Callable[[Function], Function]:
    """torch alone is given the same copies: Dynamo has faults that only arguments without a base meet."""

    def prepare(function: Function) -> Function:
        compiled = aot(case)(function)
        known: set[Any] = set()

        def call(*args: Any) -> Any:
            if key_of(args) not in known:
                known.add(key_of(args))
                with torch.no_grad():
                    compiled(*copied(list(args)))
            return compiled(*args)

        return call

    return prepare


def of_traced(made: Callable[[GraphModule, list[Any]], Function]) -> Callable[[Function], Function]:
    """The function as a graph for each shape, traced with real tensors."""

    def prepare(function: Function) -> Function:
        known: dict[Any, Function] = {}

        def call(*args: Any) -> Any:
            key = key_of(args)
            if key not in known:
                traced, given = (copied(list(args)) for _ in range(2))
                known[key] = made(
                    make_fx(function)(*traced), given
                )  # tracing may turn its arguments in place
            return known[key](*args)

        return call

    return prepare


def traced(case: Case, mode: str, folder: Path) -> Callable[[Function], Function]:
    return of_traced(lambda gm, given: compile_fx(gm, given, {"mode": mode}))


def padded(case: Case, mode: str, folder: Path) -> Callable[[Function], Function]:
    return declared(case, partial(torch.compile, backend="air", dynamic=True, options={"mode": mode}))


def padded_alone(case: Case) -> Callable[[Function], Function]:
    return declared(case, partial(torch.compile, backend="aot_eager", dynamic=True))


def declared(case: Case, compile_: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Some dims of the arguments are to be padded, where the program keeps the rows apart."""
    chance = random.Random(case.source())
    dims = [(place, dim) for place in range(4) for dim in range(3) if chance.random() < 0.5]
    return declaring(compile_, set_dim_buckets, [(place, {dim: [4, 8, 16]}) for place, dim in dims])


def declaring(
    compile_: Callable[[Function], Function],
    declare: Callable[[Tensor, dict[int, list[int]]], None],
    wanted: Sequence[tuple[int, dict[int, list[int]]]],
) -> Callable[[Function], Function]:
    """Declares sizes on the arguments of each call, by their places, as far as they have such dims."""

    def prepare(function: Function) -> Function:
        compiled = compile_(function)

        def call(*args: Any) -> Any:
            tensors = [value for value in args if isinstance(value, Tensor)]
            for place, sizes in wanted:
                if place < len(tensors):
                    own = {dim: of_it for dim, of_it in sizes.items() if dim < tensors[place].dim()}
                    with contextlib.suppress(DeclarationRefused):
                        declare(tensors[place], own)
            return compiled(*args)

        return call

    return prepare


def sizes_of(case: Case) -> dict[tuple[int, int], set[int]]:
    """The sizes that each dim of each argument has in the calls of a case."""
    seen: dict[tuple[int, int], set[int]] = {}

    def prepare(function: Function) -> Function:
        def call(*args: Any) -> Any:
            for place, tensor in enumerate(value for value in args if isinstance(value, Tensor)):
                for dim, size in enumerate(tensor.shape):
                    seen.setdefault((place, dim), set()).add(size)
            return function(*args)

        return call

    run_case(case, prepare)
    return seen


def geared(case: Case, mode: str, folder: Path) -> Callable[[Function], Function]:
    return with_gears(case, partial(torch.compile, backend="air", dynamic=True, options={"mode": mode}))


def geared_alone(case: Case) -> Callable[[Function], Function]:
    return with_gears(case, partial(torch.compile, backend="aot_eager", dynamic=True))


def with_gears(case: Case, compile_: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Some dims of the arguments are declared with the sizes that they have in the calls."""
    chance = random.Random(case.source())
    drawn: dict[int, dict[int, list[int]]] = {}
    for (place, dim), sizes in sorted(sizes_of(case).items()):
        if len(sizes) > 1 and 0 not in sizes and chance.random() < 0.7:
            drawn.setdefault(place, {})[dim] = sorted(sizes)
    return declaring(compile_, set_dim_gears, [*drawn.items()])


def traced_alone(case: Case) -> Callable[[Function], Function]:
    return of_traced(lambda gm, given: in_a_tuple(gm, lambda flat: aot_eager(flat, given)))


WAYS: Final = {
    "kept": Way(kept, partial(aot, fullgraph=True), times=2),
    "pinned": Way(pinned, pinned_alone, ignored=OF_COPIES),
    "padded": Way(padded, padded_alone, refusals=("BucketsRefused", "Constraints violated")),
    "geared": Way(geared, geared_alone, refusals=("GearError", "Constraints violated")),
    "traced": Way(traced, traced_alone, of_traced(lambda gm, _: gm)),
}

#: Only captures are pinned, or padded; only the graph engine knows gears.
PAIRS: Final = (
    *itertools.product(("kept", "traced"), ("reduce-overhead", "max-autotune")),
    ("pinned", "reduce-overhead"),
    ("padded", "reduce-overhead"),
    ("geared", "max-autotune"),
)


def difference_of(seed: int, way: Way, mode: str, folder: Path, device: str = "cpu") -> str | None:
    case = draw_case(seed, device=device)
    if case is None or any(word in str(case) for word in way.left_out):
        return None
    expected = run_case(case, way.right)
    if expected.raised is not None:
        return None
    for time in range(way.times):
        torch._dynamo.reset()
        seen = run_case(case, way.judged(case, mode, folder))
        if any(word in str(seen.raised) for word in way.refusals):
            return None
        found = differences(expected, seen, case.is_exact, way.ignored)
        if found:
            torch._dynamo.reset()
            alone = differences(expected, run_case(case, way.alone(case)), case.is_exact, way.ignored)
            if alone and alone[0].step <= found[0].step:
                return None
            return f"seed {seed}, run {time}: {found[0]}\n{case}"
    return None


@contextlib.contextmanager
def unread_files() -> Iterator[list[str]]:
    """What is said of files of `cache_compile` that are not used; `caplog` would keep every line of a long run."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    handler.addFilter(lambda record: "is not used" in record.getMessage())
    log = logging.getLogger("air_backend")
    log.addHandler(handler)
    try:
        yield said
    finally:
        log.removeHandler(handler)


@pytest.mark.parametrize(("way", "mode"), PAIRS)
def test_random_programs_run_in_another_way_give_their_caller_what_eager_gives(
    way: str, mode: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    first, programs = (request.config.getoption(name) for name in ("--fuzz-seed", "--fuzz-programs"))
    with unread_files() as unread:
        found = [
            difference_of(seed, WAYS[way], mode, tmp_path / str(seed))
            for seed in range(first, first + programs)
        ]
    assert [text for text in found if text] == []
    assert unread == [], "a file of cache_compile could not be read"


@pytest.mark.npu("the engine's gears, and torch_npu's layouts, are only there")
@pytest.mark.parametrize(("way", "mode"), PAIRS)
def test_random_programs_on_an_npu_run_in_another_way_give_their_caller_what_eager_gives(
    way: str, mode: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    first, programs = (request.config.getoption(name) for name in ("--fuzz-seed", "--fuzz-programs"))
    seeds = range(first, first + max(programs // 5, 1))
    found = [difference_of(seed, WAYS[way], mode, tmp_path / str(seed), "npu") for seed in seeds]
    assert [text for text in found if text] == []


@pytest.mark.parametrize("way", ["pinned", "traced"])
def test_the_judge_takes_arguments_that_are_one_memory_as_two_types(
    way: str, device: str, tmp_path: Path
) -> None:
    """`copy.deepcopy` raises for them on an NPU, with torch alone."""
    case = draw_case(0)
    assert case is not None
    x = torch.arange(4.0, device=device)
    run = WAYS[way].judged(case, "reduce-overhead", tmp_path)(lambda a, b: (a * 2, b + 1))
    with torch.no_grad():
        for _ in range(2):
            doubled, more = run(x, x.view(torch.int32))
            assert torch.equal(doubled, x * 2)
            assert torch.equal(more, x.view(torch.int32) + 1)


def test_torch_alone_is_given_the_arguments_that_are_pinned(tmp_path: Path) -> None:
    case, way = draw_case(0), WAYS["pinned"]
    assert case is not None
    seen: list[bool] = []
    note = torch.compiler.disable(lambda x: seen.append(x._is_view()))

    def function(x: Tensor) -> Tensor:
        note(x)
        return x * 2

    for run in (way.judged(case, "reduce-overhead", tmp_path)(function), way.alone(case)(function)):
        torch._dynamo.reset()
        seen.clear()
        for _ in range(2):
            run(torch.ones(2, 2)[0])
        assert seen == [False, True, True]
