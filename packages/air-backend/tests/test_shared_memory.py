"""Arguments that share memory otherwise than those a graph was traced for: the numbers are those of eager."""

from __future__ import annotations

import contextlib
import gc
import os
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch.fx.experimental.proxy_tensor import make_fx

from air_backend import compile_fx, explain, pin
from air_backend.eager_calls import SharedOtherwise
from air_backend.eager_calls._running import EAGER_CALLS
from air_backend.errors import PinnedArgument, SharingRefused
from air_backend.inference import cache_compile
from air_config.errors import AirError
from sharing import Drawn, draw

MODES = ("reduce-overhead", "max-autotune")


def context(drawn: Drawn) -> contextlib.AbstractContextManager[Any]:
    if drawn.context == "grad":
        return contextlib.nullcontext()
    return torch.inference_mode() if drawn.context == "inference" else torch.no_grad()


def outcome(function: Any, drawn: Drawn, call: Any, device: str) -> list[Any]:
    """What a call returns and where it lies, what it leaves in the buffers, and in the gradient of the parameter."""
    with context(drawn):
        args, buffers = drawn.arguments(call, device)
        result, *views = function(*args)
        if drawn.context == "grad":
            result.sum().backward()
    gradient = [] if args[-1].grad is None else [args[-1].grad]
    storages = [one.untyped_storage().data_ptr() for one in buffers]
    lying = [
        (storages.index(one.untyped_storage().data_ptr()), one.storage_offset(), one.stride())
        for one in views
    ]
    return [*(one.detach().cpu().clone() for one in (result, *views, *buffers, *gradient)), lying]


def judge(seed: int, mode: str, device: str = "cpu") -> None:
    """Runs the calls of a seed; each has eager's numbers."""
    torch._dynamo.reset()
    drawn = draw(seed)
    compiled = torch.compile(drawn.function, backend="air", mode=mode, dynamic=drawn.dynamic)
    for number, call in enumerate(drawn.calls):
        try:
            wanted = outcome(drawn.function, drawn, call, device)
        except RuntimeError:  # autograd refuses it in eager
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = outcome(compiled, drawn, call, device)
        assert found.pop() == wanted.pop(), f"seed {seed}, call {number}: views lie elsewhere"
        torch.testing.assert_close(found, wanted, msg=f"seed {seed}, call {number}: {{}}".format)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("first", range(0, 16, 8))
def test_N25_drawn_calls_whose_arguments_share_memory_have_eagers_numbers(mode: str, first: int) -> None:
    for seed in range(first, first + 8):
        judge(seed, mode)


@pytest.mark.npu("max-autotune does not serve CUDA tensors")
@pytest.mark.parametrize("mode", MODES)
def test_N25_drawn_calls_on_an_npu_have_eagers_numbers(mode: str) -> None:
    for seed in range(100, 106):
        judge(seed, mode, "npu")


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_many_drawn_calls_have_eagers_numbers(mode: str) -> None:
    for seed in range(1000, 1300):
        judge(seed, mode)


def step(slot: Tensor, window: Tensor) -> Tensor:
    slot.mul_(2)
    return window.sum() + 1


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    counters.clear()
    return torch.compile(function, backend="air", options={"mode": "reduce-overhead", **options})


def parts(first: int, second: int) -> tuple[Tensor, Tensor]:
    """Two parts of one tensor, of four elements each."""
    whole = torch.arange(16.0)
    return whole[first : first + 4], whole[second : second + 4]


def written_in_turn(slot: Tensor, window: Tensor) -> Tensor:
    slot.mul_(2)
    window.add_(1)
    return slot + 1


def test_a_call_whose_arguments_overlap_otherwise_warns_once_with_names_and_line() -> None:
    run = compiled(step)
    run(*parts(0, 8))
    with pytest.warns(SharedOtherwise) as told:
        assert [run(*parts(0, at)).item() for at in (2, 2, 1)] == [
            step(*parts(0, at)).item() for at in (2, 2, 1)
        ]
    assert len(told) == 1
    assert told[0].filename == __file__
    assert "L['slot'], L['window']" in str(told[0].message)
    assert "slot.mul_(2)" in str(told[0].message)
    assert counters[EAGER_CALLS] == {str(told[0].message): 3}


def test_arguments_that_overlap_as_in_the_first_call_are_compiled() -> None:
    run = compiled(step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert run(*parts(0, 2)) == step(*parts(0, 2))
    assert not counters[EAGER_CALLS]


@pytest.mark.parametrize("mode", MODES)
def test_a_tensor_that_begins_where_a_shorter_one_did_is_not_taken_for_it(mode: str) -> None:
    """What overlaps as in the trace goes to the graph as the whole that it views; here the next one is longer."""
    memory = bytearray(64 * 4)
    run = compiled(written_in_turn, mode=mode)
    for elements in (16, 16, 64, 16):
        with torch.no_grad():
            whole = torch.frombuffer(memory, dtype=torch.float32, count=elements)
            expected = written_in_turn(whole.fill_(1)[:8], whole[2:6]).tolist()
            written = whole.tolist()
            assert run(whole.fill_(1)[:8], whole[2:6]).tolist() == expected
            assert whole.tolist() == written


@pytest.mark.parametrize("mode", MODES)
def test_an_argument_with_other_strides_at_the_same_address_is_looked_at_again(mode: str) -> None:
    """With stride 9 the written argument reaches into the other one, which it does not with stride 7."""

    def written_first(slot: Tensor, window: Tensor) -> Tensor:
        slot.mul_(2)
        return window + slot.sum()

    torch._dynamo.reset()
    run = torch.compile(written_first, backend="air", options={"mode": mode}, dynamic=True)
    whole = torch.arange(64.0)

    def windows(stride: int) -> tuple[Tensor, Tensor]:
        return whole.as_strided((2, 2), (stride, 1)), whole[10:15]

    with torch.no_grad():
        run(torch.ones(64).as_strided((2, 2), (7, 1)), torch.ones(64)[10:15])  # traced apart
        for stride in (7, 7, 9, 7):
            before = whole.clone()
            expected, written = written_first(*windows(stride)), whole.clone()
            whole.copy_(before)
            torch.testing.assert_close(run(*windows(stride)), expected)
            torch.testing.assert_close(whole, written)


def test_arguments_that_are_only_read_may_share_memory_in_any_way() -> None:
    run = compiled(lambda slot, x, y: slot.add_(x + y) * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for at in (8, 2, 0):
            slot = torch.ones(4)
            x, y = parts(0, at)
            assert torch.equal(run(slot, x, y), (1 + x + y) * 2)


def test_arguments_of_a_call_are_not_held() -> None:
    run = compiled(step)
    slot, window = torch.ones(4), torch.ones(4)
    run(slot, window)
    held = [weakref.ref(slot), weakref.ref(window)]
    del slot, window
    gc.collect()
    assert [one() for one in held] == [None, None]


def test_where_an_error_is_asked_for_such_a_call_is_one() -> None:
    run = compiled(step, **{"air.uncapturable": "error"})
    run(*parts(0, 8))
    with pytest.raises(SharingRefused, match=r"one of L.'slot'., L.'window'.: these overlap otherwise"):
        run(*parts(0, 2))


@pytest.mark.parametrize("mode", MODES)
def test_views_that_torch_cannot_trace_run_eagerly_with_its_reason(mode: str) -> None:
    def reads_bits(slot: Tensor, bits: Tensor) -> Tensor:
        slot.mul_(2)
        return bits + 1

    def arguments() -> tuple[Tensor, Tensor]:
        whole = torch.arange(8.0)
        return whole[:4], whole.view(torch.int32)[2:6]

    torch._dynamo.reset()
    run = torch.compile(reads_bits, backend="air", mode=mode)
    with pytest.warns(SharedOtherwise, match="views with different dtypes"):
        assert torch.equal(run(*arguments()), reads_bits(*arguments()))


@pytest.mark.parametrize("mode", MODES)
def test_a_result_that_is_a_view_of_an_argument_with_a_base_is_the_right_part(mode: str) -> None:
    def function(slot: Tensor, window: Tensor) -> Tensor:
        slot.zero_()
        return window[1:3]

    torch._dynamo.reset()
    run = torch.compile(function, backend="air", mode=mode)
    with pytest.warns(SharedOtherwise, match="of the tensor they belong to"):
        found, expected = run(*parts(3, 2)), function(*parts(3, 2))
    assert (found.tolist(), found.storage_offset()) == (expected.tolist(), expected.storage_offset())


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("npu", marks=pytest.mark.npu("max-autotune does not serve CUDA tensors"))]
)
@pytest.mark.parametrize("mode", MODES)
def test_N25_a_result_that_is_a_written_argument_is_that_argument_in_each_call(
    mode: str, device: str
) -> None:
    def doubled(a: Tensor) -> Tensor:
        a += a
        return a

    torch._dynamo.reset()
    run = torch.compile(doubled, backend="air", options={"mode": mode})
    a = torch.ones(4, device=device)
    assert all(run(a) is a for _ in range(4))
    assert a.tolist() == [16] * 4


def test_writes_to_one_element_through_several_views_are_put_in_place() -> None:
    def written(a: Tensor) -> Tensor:
        first = a[None]
        first.neg_()
        torch.clamp(first, -1, 1, out=first)
        second = first.expand_as(first)
        second[torch.tensor([0, -1])] = 2
        first[first > 0] *= 2
        torch.clamp(second, -1, 1, out=second)
        return second

    found, expected = torch.tensor(-17), torch.tensor(-17)
    assert torch.equal(compiled(written)(found), written(expected))
    assert torch.equal(found, expected)


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "slice": lambda x: x[:, 1 : x.shape[1] - 1],
    "split": lambda x: x.split(x.shape[1] // 2, 1)[1],
    "expanded": lambda x: x[0].expand(3, x.shape[1]),
    "divided": lambda x: x.unflatten(1, (2, x.shape[1] // 2)),
    "diagonal": lambda x: x.diagonal(1),
    "diagonal that some sizes leave empty": lambda x: torch.diagonal(x, -2),
    "view of an empty diagonal": lambda x: torch.linalg.diagonal(x, offset=7).unsqueeze(0),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", VIEWS)
def test_N25_a_view_of_a_written_argument_with_open_sizes_is_the_right_part(name: str, mode: str) -> None:
    def function(x: Tensor) -> Tensor:
        x.mul_(2)
        return VIEWS[name](x)

    torch._dynamo.reset()
    run = torch.compile(function, backend="air", mode=mode, dynamic=True)
    for rows, columns, offset, stride in (
        (2, 4, 4, (8, 2)),
        (2, 4, 0, (8, 1)),
        (3, 6, 5, (1, 3)),
        (2, 4, 0, (4, 1)),
    ):
        x, twin = (torch.arange(64.0).as_strided((rows, columns), stride, offset) for _ in range(2))
        found, expected = run(x), function(twin)
        assert torch.equal(found, expected)
        assert (found.stride(), found.storage_offset()) == (expected.stride(), expected.storage_offset())
        assert found.untyped_storage()._cdata == x.untyped_storage()._cdata


def test_a_view_whose_place_depends_on_data_comes_from_an_eager_run() -> None:
    def function(x: Tensor, count: Tensor) -> Tensor:
        x.mul_(2)
        begin = int(count.item())
        torch._check(begin >= 0)
        torch._check(begin <= 2)
        return x.narrow(1, begin, 2)

    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        run = torch.compile(function, backend="air", mode="reduce-overhead", dynamic=True)
        x, twin = (torch.arange(64.0).as_strided((2, 4), (8, 2), 3) for _ in range(2))
        with pytest.warns(SharedOtherwise, match="where it begins depends on data"):
            assert torch.equal(run(x, torch.tensor(2)), function(twin, torch.tensor(2)))


def test_a_function_with_streams_runs_eagerly_as_the_program_says() -> None:
    side = torch.Stream("cpu")

    def on_two_streams(slot: Tensor, window: Tensor) -> Tensor:
        with side:
            slot.mul_(2)
        return window.sum() + 1

    run = compiled(on_two_streams)
    run(*parts(0, 8))
    with pytest.warns(SharedOtherwise):
        assert run(*parts(0, 2)) == step(*parts(0, 2))


@pytest.mark.parametrize("options", [{}, {"air.uncapturable": "error"}], ids=["eagerly", "as an error"])
def test_a_function_read_from_a_file_runs_such_a_call_as_it_is(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    wanted = {"mode": "reduce-overhead", **options}
    for at in (8, 2):
        torch._dynamo.reset()
        run = cache_compile(step, cache_dir=tmp_path, options=wanted)
        if at == 8:
            assert run(*parts(0, at)) == step(*parts(0, at))
    if options:
        with pytest.raises(SharingRefused, match=r"slot\.mul_\(2\)"):
            run(*parts(0, 2))
        return
    with pytest.warns(SharedOtherwise, match="l_slot_, l_window_") as told:
        found = [run(*parts(0, at)) for at in (2, 1, 8, 2)]
    assert found == [step(*parts(0, at)) for at in (2, 1, 8, 2)]
    assert len(told) == 1
    assert told[0].filename == __file__


@pytest.mark.parametrize("mode", MODES)
def test_a_base_that_begins_inside_its_memory_runs_eagerly_with_torchs_reason(mode: str) -> None:
    def through_both(view: Tensor, base: Tensor) -> Tensor:
        view.neg_()
        base.lerp_(base, 0.5)
        return view + 1

    def given() -> tuple[Tensor, Tensor]:
        base = (
            torch.arange(23.0)[3:].reshape(5, 4).data
        )  # no view for torch, and it does not begin where its memory does
        return base[2:3], base

    run = compiled(through_both, mode=mode)
    with pytest.warns(SharedOtherwise, match="torch cannot trace it: as_strided_scatter"):
        first = run(*given())
    assert torch.equal(first, through_both(*given()))
    (view, base), (other_view, other_base) = given(), given()
    assert torch.equal(run(view, base), through_both(other_view, other_base))
    assert torch.equal(base, other_base)


@pytest.mark.parametrize("mode", MODES)
def test_a_write_to_one_row_of_an_expanded_argument_runs_eagerly_with_torchs_reason(mode: str) -> None:
    def writes_a_row(rows: Tensor) -> Tensor:
        rows[2:3] = 0
        return -rows

    def given() -> Tensor:
        return torch.arange(4.0).reshape(1, 4).expand(4, 4)

    run = compiled(writes_a_row, mode=mode)
    with pytest.warns(SharedOtherwise, match="more than one element of the written-to tensor"):
        first = run(given())
    assert torch.equal(first, writes_a_row(given()))
    ours, eagers = given(), given()
    assert torch.equal(run(ours), writes_a_row(eagers))
    assert torch.equal(ours, eagers)


def test_an_error_of_ours_is_not_taken_for_one_about_shared_memory() -> None:
    def counts(view: Tensor, base: Tensor) -> Tensor:
        view.neg_()
        return base.nonzero()

    run = compiled(counts, **{"air.uncapturable": "error"})
    base = torch.arange(8.0)
    with (
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
        pytest.raises(AirError, match=r"aten\.nonzero"),
    ):
        run(base[2:3], base)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("turn", [lambda x: x.unsqueeze_(0), lambda x: x.t_(), lambda x: x.squeeze_()])
def test_a_traced_graph_that_turns_an_argument_turns_it_where_it_lies(
    mode: str, turn: Callable[[Tensor], Tensor]
) -> None:
    def turning(x: Tensor) -> Tensor:
        x.mul_(2)
        return turn(x) + 1

    def given(at: int) -> Tensor:
        whole = torch.arange(36.0).reshape(6, 6)
        return whole[at : at + 1, at:6:2] if at else whole[:1, :3]

    graph = make_fx(turning)(given(0))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", SharedOtherwise)
        run = compile_fx(graph, [given(0)], {"mode": mode})
        for at in (0, 1, 0, 1):
            ours, eagers = given(at), given(at)
            assert torch.equal(run(ours), turning(eagers))
            assert torch.equal(ours, eagers)
            assert (ours.stride(), ours.storage_offset()) == (eagers.stride(), eagers.storage_offset())
            assert ours._base is not None
            assert eagers._base is not None
            assert torch.equal(ours._base, eagers._base)
    assert [str(one.message).split(": ")[2].split(",")[0] for one in told] == [
        "it gives it other sizes or strides"
    ]


def test_a_file_is_not_made_of_what_cannot_be_traced_for_such_a_call(tmp_path: Path) -> None:
    def gives_a_view(slot: Tensor, window: Tensor) -> Tensor:
        slot.mul_(2)
        return window[1:]

    run = cache_compile(gives_a_view, cache_dir=tmp_path, options={"mode": "reduce-overhead"})
    with pytest.warns(SharedOtherwise, match="a result is a view of one"):
        first = run(*parts(0, 2))
    assert torch.equal(first, gives_a_view(*parts(0, 2)))
    for at in (2, 8):
        assert torch.equal(run(*parts(0, at)), gives_a_view(*parts(0, at)))


def test_explain_says_that_a_call_runs_eagerly_and_why() -> None:
    def gives_a_view(slot: Tensor, window: Tensor) -> Tensor:
        slot.mul_(2)
        return window[1:]

    with pytest.warns(SharedOtherwise):
        told = explain(gives_a_view, *parts(0, 2))
    (reason,) = told.data["calls run eagerly"]
    assert "a result is a view of one" in reason
    assert "slot.mul_(2)" in told.to_text()
    assert "a result is a view of one" in told.to_html()


def test_torchs_cache_keeps_apart_what_shares_memory_in_different_ways(tmp_path: Path) -> None:
    with patch.dict(os.environ, {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}):
        for first, second in ((8, 2), (2, 8), (1, 8)):
            run = compiled(step, **{"air.cache.save": True})
            for at in (first, second):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    assert run(*parts(0, at)) == step(*parts(0, at))


def test_a_pinned_call_whose_arguments_overlap_is_refused() -> None:
    run = compiled(step)
    slot, whole = torch.ones(4), torch.ones(8)
    with torch.no_grad():
        fast = pin(run, slot, whole[:4])
        assert fast(slot, whole[2:6]) == 5
        with pytest.raises(PinnedArgument, match="do not share memory as in the example"):
            fast(slot, slot[:])
