"""Graphs with operators that have to run eagerly: pieces between them, the same numbers, one warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

import air_aclgraph
from air_backend import _pieces, _records
from air_backend._describe import describe
from air_backend.errors import GraphSplit
from air_graph import testing as _operators_that_wait  # noqa: F401

MODES = ("reduce-overhead", "max-autotune")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    _pieces._told.clear()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        yield
    torch._dynamo.reset()


def compiled(function: Callable[..., Any], mode: str, **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, backend="air", options={"mode": mode, **options}, fullgraph=True)


def _nonzero_feeds_matmul(x: Tensor, w: Tensor) -> Tensor:
    rows = (x.sum(1) > 0).nonzero().squeeze(1)
    return (x[rows] @ w).sum(0) + w.relu().sum()


def _number_read(x: Tensor, w: Tensor) -> Tensor:
    scale = x.max().item()
    return (x @ w) * scale + 1


def _two_cuts(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    a = (x @ w).relu()
    count = (a > 0.5).nonzero().shape[0]
    b = a.sin() @ w
    first = b.flatten().masked_select(b.flatten() > 0).sum()
    return b * count, first + w.sum()


def _mask_written(x: Tensor, w: Tensor) -> Tensor:
    y = x @ w
    y[y > 0] = -1.0
    return y * 2


def _mask_written_into_input(x: Tensor, w: Tensor) -> Tensor:
    x[x > 0] = 0.5
    return (x @ w).relu()


def _unique_between(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    values, places = torch.unique((x * 3).round(), return_inverse=True)
    return values.sum() + (x @ w).sum(), places + 1


def _rows_of_unknown_number_written(x: Tensor, w: Tensor) -> Tensor:
    picked: Tensor = torch.atleast_2d((x > 0).nonzero())
    picked.copy_(picked.flip(0))
    return picked


def _part_of_unknown_length(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    part = x[:, 1:]
    rows: Tensor = torch.ops.air_testing.kept(part.chunk(2, 0)[1])
    return part[: int(part.count_nonzero()) % 2 + 1], rows.sum()


def _as_many_as_are_counted(x: Tensor, w: Tensor) -> Tensor:
    return w.new_full((int((x > 0).sum().item()) + 1,), 2)


def _a_range_to_what_is_counted(x: Tensor, w: Tensor) -> Tensor:
    return torch.arange(int((x > 0).sum()), device=x.device) * 2


PROGRAMS = (
    _as_many_as_are_counted,
    _a_range_to_what_is_counted,
    _rows_of_unknown_number_written,
    _part_of_unknown_length,
    _nonzero_feeds_matmul,
    _number_read,
    _two_cuts,
    _mask_written,
    _mask_written_into_input,
    _unique_between,
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_N23_a_program_with_eager_operators_does_what_eager_does(
    program: Callable[..., Any], mode: str, device: str
) -> None:
    run = compiled(program, mode)
    for step in range(4):
        torch.manual_seed(step)
        x, w = torch.randn(4, 4, device=device), torch.randn(4, 4, device=device)
        theirs, ours = x.clone(), x.clone()
        want, got = program(theirs, w), run(ours, w)
        torch.testing.assert_close(got, want)
        assert torch.equal(theirs, ours)


def test_N23_one_warning_names_operator_line_and_cost() -> None:
    run = compiled(_nonzero_feeds_matmul, "reduce-overhead")
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    with pytest.warns(GraphSplit) as caught:
        run(x, w)
    told = str(caught[0].message)
    assert "aten.nonzero.default" in told
    assert "nonzero().squeeze(1)" in told
    assert "test_pieces.py" in caught[0].filename
    with warnings.catch_warnings():
        warnings.simplefilter("error", GraphSplit)
        run(x, w)
        compiled(_nonzero_feeds_matmul, "reduce-overhead")(x, w)


def test_N23_an_error_is_had_for_the_asking() -> None:
    run = compiled(_nonzero_feeds_matmul, "reduce-overhead", **{"air.uncapturable": "error"})
    with pytest.raises(air_aclgraph.errors.IllegalDuringCapture, match=r"nonzero.*depends on the data"):
        run(torch.randn(4, 4), torch.randn(4, 4))


@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_explain_and_counts_show_the_pieces() -> None:
    run = compiled(_two_cuts, "reduce-overhead")
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    for _ in range(3):
        run(x, w)
    ((record, executable),) = _records.alive()
    assert isinstance(executable, air_aclgraph.PiecedExecutable)
    assert len(executable.pieces) >= 2
    stats = executable.stats()
    assert stats["captures"] == len(executable.pieces)
    assert stats["replays"] >= len(executable.pieces)
    told = describe(record, executable)
    assert [each["operator"] for each in told["eager"]].count("aten.nonzero.default") == 1
    assert set(told["reduce-overhead"]["pieces"]) == set(executable.pieces)
    with pytest.raises(air_aclgraph.errors.InputRefused, match="captured pieces"):
        executable.pin(x, w)
    executable.close()
    with pytest.raises(air_aclgraph.errors.Closed):
        run(x, w)


@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_an_operator_that_was_registered_is_kept_out_of_captures() -> None:
    air_aclgraph.register_uncapturable("aten::sin")
    try:
        run = compiled(lambda x: (x + 1).sin() * 2, "reduce-overhead")
        for value in (1.0, 2.0, 3.0):
            x = torch.full((3,), value)
            torch.testing.assert_close(run(x), (x + 1).sin() * 2)
    finally:
        air_aclgraph.unregister_uncapturable("aten::sin")


@pytest.mark.skipif(torch.__version__ < "2.12", reason="torch 2.11 does not trace quantised tensors")
@pytest.mark.filterwarnings("ignore")
def test_quantised_tensors_are_kept_out_of_captures() -> None:
    """Their memory has a scale; torch's example values say that they are plain."""

    def step(x: Tensor) -> Tensor:
        rounded: Tensor = torch.quantize_per_tensor(x + 1, 0.1, 10, torch.quint8).dequantize()
        return rounded * 2

    run = compiled(step, "reduce-overhead")
    for value in (1.0, 2.05, 3.0):
        x = torch.full((3,), value)
        torch.testing.assert_close(run(x), step(x))


@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_N23_what_keeps_its_address_is_known_by_name_in_every_piece() -> None:
    """The numbers of a graph's static inputs are not those of a piece's: frozen, the wrong input stayed as it was."""
    model = torch.nn.Linear(4, 4).requires_grad_(False)

    def program(x: Tensor, y: Tensor) -> Tensor:
        return (y * 2 + torch.as_tensor(model(x)).sin()) @ model.weight

    air_aclgraph.register_uncapturable("aten::sin", "for this test")
    try:
        run = compiled(program, "reduce-overhead", **{"experimental_config.frozen_parameter": True})
        inputs = [(torch.randn(4, 4) + step, torch.randn(4, 4) * step) for step in range(4)]  # four addresses
        for x, y in inputs:
            torch.testing.assert_close(run(x, y), program(x, y))
    finally:
        air_aclgraph.unregister_uncapturable("aten::sin")


@torch.library.custom_op("air_pieces::doubles", mutates_args=("x",))
def doubles(x: Tensor) -> None:
    x.mul_(2)


@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_N23_an_operator_that_writes_its_arguments_is_kept_out_of_captures() -> None:
    """While a graph is functional, such an operator stands inside one of a higher order."""

    def program(x: Tensor) -> Tensor:
        y = x + 1
        doubles(y)
        return y * 3

    air_aclgraph.register_uncapturable("air_pieces::doubles")
    try:
        run = compiled(program, "reduce-overhead")
        for value in (1.0, 2.0, 3.0):
            x = torch.full((3,), value)
            torch.testing.assert_close(run(x), program(x))
        ((_, executable),) = _records.alive()[-1:]
        assert [each["operator"] for each in executable.explain()["eager"]] == ["air_pieces.doubles.default"]
    finally:
        air_aclgraph.unregister_uncapturable("air_pieces::doubles")


@pytest.mark.parametrize("program", [_mask_written, _mask_written_into_input], ids=lambda p: p.__name__)
def test_a_number_written_through_a_mask_is_captured_on_a_device(
    accelerator: str, program: Callable[..., Any]
) -> None:
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    expected = program(x.clone(), w)
    run = compiled(program, "reduce-overhead")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", GraphSplit)
        for _ in range(3):
            torch.testing.assert_close(run(x.to(accelerator), w.to(accelerator)).cpu(), expected)
    ((_, executable),) = _records.alive()
    assert not executable.pieces


def _rows_of_the_host(x: Tensor, i: Tensor) -> Tensor:
    return (x * 2)[i].sum(0) @ x


def _computed_on_the_host(x: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
    return x * i.sum(), i + 1


def _staged(x: Tensor, i: Tensor) -> Tensor:
    y = x + i.to(x.device)
    y[0].copy_(i)
    return y


@pytest.mark.parametrize("function", [_rows_of_the_host, _computed_on_the_host, _staged])
def test_N23_an_input_in_the_memory_of_the_host_is_read_there_in_every_call(
    accelerator: str,
    function: Callable[..., Any],
) -> None:
    run = compiled(function, "reduce-overhead")
    with torch.no_grad(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", GraphSplit)
        for last in range(3):
            x, i = torch.randn(3, 3).to(accelerator), torch.tensor([2, last, 1])
            torch.testing.assert_close(run(x, i), function(x, i))
    assert bool(told) == (function is not _staged)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_N23_an_assert_of_the_program_stops_it(mode: str) -> None:
    def function(x: Tensor) -> Tensor:
        torch._assert_async((x > 0).all(), "numbers have to be positive")  # what Dynamo makes of an `assert`
        return x * 2

    run = compiled(function, mode)
    assert torch.equal(run(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(RuntimeError, match="numbers have to be positive"):
        run(-torch.ones(3))


@pytest.mark.npu("only torch_npu refuses to capture bernoulli")
@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_N23_an_operator_that_refuses_to_be_captured_runs_between_pieces() -> None:
    run = compiled(lambda x: torch.bernoulli(x) + 1, "reduce-overhead")
    chances = torch.tensor([0.0, 1.0, 1.0], device="npu")
    assert run(chances).tolist() == run(chances).tolist() == [1.0, 2.0, 2.0]


@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
@pytest.mark.parametrize("mode", MODES)
def test_each_piece_has_its_name_in_torchs_profiler(mode: str, device: str) -> None:
    x, w = torch.randn(8, 8, device=device), torch.randn(8, 8, device=device)
    step = compiled(_two_cuts, mode)
    for _ in range(2):
        step(x, w)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        step(x, w)
    names = {event.name for event in seen.events() or ()}
    ((_, executable),) = _records.alive()
    what = "replay" if mode == "reduce-overhead" else "run"
    shown = [name for name in names if name.startswith(f"air: {what} ")]
    assert len(shown) == (len(executable.pieces) or 1), "an engine may need no cut"
