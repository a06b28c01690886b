"""What a compiled graph gives back lies in memory as eager's results do: strides, offset, and who shares with whom."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import torch

from air_config import CompilerConfig, Context, resolve
from air_geir import Executable, _engines, compile_graph
from air_geir.engines import EngineOptions
from air_geir.errors import ContractError, UnsupportedGraphError
from air_geir.proof import trace
from air_geir.reference import ReferenceEngine

Tensor = torch.Tensor
LAYOUTS: Mapping[str, Callable[[int, int], Tensor]] = {
    "contiguous": lambda n, m: counted(n, m),
    "transposed": lambda n, m: counted(m, n).t(),
    "sliced": lambda n, m: counted(n, 2 * m)[:, ::2],
    "offset": lambda n, m: counted(n + 1, m)[1:],
    "expanded": lambda n, m: counted(1, m).expand(n, m),
    "padded": lambda n, m: counted(n + 2, m + 3)[1:-1, 1:-2].t().contiguous().t(),
}
RARER = ("sliced", "expanded", "padded")
VIEWS: Mapping[str, Callable[[Tensor], Any]] = {
    "chunk": lambda x: x.chunk(2, 1)[1],
    "split": lambda x: x.split([1, x.shape[1] - 1], 1)[1],
    "unbind": lambda x: x.unbind(1)[2],
    "narrow": lambda x: x.narrow(1, 1, 3),
    "select": lambda x: x.select(1, 2),
    "row": lambda x: x[1],
    "half": lambda x: x[:, : x.shape[1] // 2],
    "every other": lambda x: x[::2, 1::2],
    "expand": lambda x: x.unsqueeze(1).expand(-1, 3, -1),
    "diagonal": lambda x: x.diagonal(1),
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.unsqueeze(0).permute(2, 0, 1),
    "squeeze": lambda x: x[:1].squeeze(0),
    "unfold": lambda x: x.unfold(1, 2, 2),
    "flat": lambda x: x.view(-1),
    "heads": lambda x: x.view(x.shape[0], 2, x.shape[1] // 2).transpose(0, 1),
    "bits": lambda x: x.view(torch.int32),
    "halves": lambda x: x.view(torch.float16)[:, 1:],
    "complex": lambda x: torch.view_as_complex(x.unflatten(1, (x.shape[1] // 2, 2))),
    "as_strided": lambda x: x.as_strided((2, 3), (3, 1), 1),
    "as_strided at its own place": lambda x: x.as_strided((2, 2), (2, 1)),
    "detach": lambda x: x.detach(),
    "alias": torch.ops.aten.alias.default,
}
FORMS: Mapping[str, Callable[[Callable[[Tensor], Any]], Callable[[Tensor], Any]]] = {
    "of the input": lambda view: lambda x: (view(x), x.sum()),
    "of a value": lambda view: lambda x: (view(x * 2),),
    "of a value, with it": lambda view: lambda x: with_base(view, x),
    "twice, overlapping": lambda view: lambda x: twice(view, x),
    "of a copy of a view": lambda view: lambda x: (x.t(), view(x.t().clone()), x),
}


def counted(*size: int) -> Tensor:
    return torch.arange(float(torch.Size(size).numel())).view(size) + 1


def with_base(view: Callable[[Tensor], Any], x: Tensor) -> Any:
    h = x + 1
    return h, view(h), view(h) * 2


def twice(view: Callable[[Tensor], Any], x: Tensor) -> Any:
    h = torch.relu(x)
    return h[1:], view(h), h.t()


def numbers(tensor: Tensor) -> Tensor:
    """The values as bytes: written to, they may be no numbers."""
    return tensor.detach().clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8)


def written(tensor: Tensor) -> None:
    """Writes to the first element, which also tensors have whose elements share memory."""
    if tensor.numel():
        first = tensor.as_strided((1,), (1,), tensor.storage_offset())
        first.copy_(first * 0 + 77)


def seen(results: list[Tensor], given: list[Tensor]) -> list[Any]:
    """All that a caller can tell about results: how they lie, what they hold, and what a write to each changes."""
    facts: list[Any] = [
        (
            tuple(r.shape),
            tuple(0 if n == 1 else s for n, s in zip(r.shape, r.stride(), strict=True)) if r.numel() else (),
            r.storage_offset() if r.numel() else 0,
            r.dtype,
        )
        for r in results
    ]
    facts.append([numbers(r).tolist() for r in results])
    for result in results:
        written(result)
        facts.append([numbers(r).tolist() for r in (*results, *given)])
    return facts


def compiled(function: Callable[..., Any], *args: Tensor, dynamic: bool = False) -> tuple[Any, Executable]:
    gm = trace(lambda *given: list(function(*given)), args, dynamic=dynamic)
    return gm, compile_graph(gm, list(args), engine="reference")


def agree(function: Callable[..., Any], make: Callable[[], list[Tensor]], run: Any) -> None:
    """Compares the compiled graph with eager, on tensors of their own."""
    mine, theirs = make(), make()
    assert seen(list(run(*mine)), mine) == seen(list(function(*theirs)), theirs)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "layout",
    ["contiguous", "transposed", "offset", *(pytest.param(name, marks=pytest.mark.slow) for name in RARER)],
)
def test_every_view_lies_where_eager_has_it(layout: str, form: str, dynamic: bool) -> None:
    ran = 0
    for name, view in VIEWS.items():
        function = FORMS[form](view)

        def make(n: int = 4, m: int = 6) -> list[Tensor]:
            return [LAYOUTS[layout](n, m)]

        try:
            function(*make())
        except RuntimeError:
            continue  # a view that this layout does not have
        try:
            gm, run = compiled(function, *make(), dynamic=dynamic)
        except UnsupportedGraphError as refused:
            assert {u.target for u in refused.found} == {"aten.view.dtype"}  # noqa: PT017  # of another width
            continue
        agree(function, make, run)
        ran += 1
        if dynamic and name != "unbind":  # the number of pieces is part of the trace
            agree(gm, partial(make, 6, 8), run)
    assert ran >= 12


def test_channels_last_and_other_orders_of_dense_values_are_kept() -> None:
    convolution = torch.nn.Conv2d(3, 4, 2)

    def images(x: Tensor) -> Any:
        y = convolution.weight.detach().sum() + x
        return y, y.permute(0, 2, 3, 1), y[:, 1:2], (y * 2).movedim(0, -1) + 1, x.clone()

    for dynamic in (False, True):
        _, run = compiled(
            images, torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), dynamic=dynamic
        )
        values = torch.randn(2, 3, 4, 5)
        agree(images, lambda: [values.clone().to(memory_format=torch.channels_last)], run)  # noqa: B023  # called here


def test_a_value_with_gaps_is_laid_out_as_eager_lays_it_out() -> None:
    def spread(x: Tensor) -> Any:
        holes = torch.ops.aten.new_empty_strided.default(x, (2, 3), (10, 2))
        return [torch.ops.aten.copy.default(holes, x)]

    gm, run = compiled(spread, counted(2, 3))
    (result,) = run(counted(2, 3))
    (wanted,) = gm(counted(2, 3))
    assert result.stride() == wanted.stride()
    assert torch.equal(result, wanted)


def test_a_plain_result_costs_nothing_beside_the_run() -> None:
    _, run = compiled(lambda x, w: (torch.relu(x @ w).view(2, -1),), counted(4, 6), counted(6, 4))
    text = run.source
    assert "    r = run((a0, a1,), ())\n    return [r[0]]\n" in text


def test_a_graph_of_views_alone_runs_no_engine() -> None:
    _, run = compiled(lambda x: (x.t(), x[1], x), counted(3, 4))
    assert run.stats()["engine"] == "none"
    assert "run(" not in run.source
    agree(lambda x: (x.t(), x[1], x), lambda: [counted(3, 4)], run)


def test_equal_values_of_several_operators_are_tensors_of_their_own() -> None:
    def equal(x: Tensor) -> Any:
        y = x + 1
        return y, y.clone(), x.clone(), torch.zeros(2), torch.zeros(2), y.contiguous().detach()

    _, run = compiled(equal, counted(2, 3))
    agree(equal, lambda: [counted(2, 3)], run)


def test_a_detached_result_is_another_tensor_over_the_same_memory() -> None:
    def both(x: Tensor) -> Any:
        y = x + 1
        return y, y.detach(), x.detach()

    _, run = compiled(both, counted(2, 3))
    x = counted(2, 3)
    y, detached, of_x = run(x)
    assert y is not detached
    assert of_x is not x
    assert y.data_ptr() == detached.data_ptr()
    assert of_x.data_ptr() == x.data_ptr()


def test_what_owns_memory_in_eager_is_no_view() -> None:
    """Autograd forbids writes to a result of a training step that is a view, or of which there is a view."""

    def results(x: Tensor) -> Any:
        y, z = x + 1, x.mT * 2
        w = torch.diagonal_scatter(x @ x.mT, x[0, :2])
        return y.detach(), y, z[1:], z, w, w.diagonal().detach()

    _, run = compiled(results, counted(2, 3))
    assert [one._is_view() for one in run(counted(2, 3))] == [False, False, True, False, False, False]
    agree(results, lambda: [counted(2, 3)], run)


def test_a_copy_into_a_part_of_an_argument_begins_where_the_part_begins() -> None:
    def scattered(x: Tensor) -> Any:
        part = x[1:]
        return torch.select_scatter(part, part[0], 0, 1).chunk(2)[0]

    _, run = compiled(scattered, counted(3))
    agree(scattered, lambda: [counted(3)], run)
    agree(scattered, lambda: [counted(5)[2:]], run)


def test_a_value_that_is_also_written_into_an_input_does_not_share_with_it() -> None:
    def update(x: Tensor) -> Any:
        y = x + 1
        x.copy_(y)
        return y, y[0], x[1]

    for make in (lambda: [counted(3, 4)], lambda: [counted(4, 3).t()], lambda: [counted(3, 8)[:, ::2]]):
        _, run = compiled(update, *make())  # type: ignore[no-untyped-call]  # a lambda of the table
        agree(update, make, run)


def test_the_length_that_data_decides_is_known_to_a_view_of_an_input() -> None:
    def up_to(x: Tensor, n: Tensor) -> Any:
        length = n.item()
        torch._check(length >= 0)
        torch._check(length <= x.shape[0])
        return [x[:length], x * 2]

    def lengths(n: int) -> list[Tensor]:
        return [counted(6), torch.tensor(n)]

    gm = trace(up_to, (counted(6), torch.tensor(4)), dynamic=True)
    run = compile_graph(gm, [counted(6), torch.tensor(4)], engine="reference")
    for n in (2, 5):
        agree(lambda x, n: (x[: int(n)], x * 2), partial(lengths, n), run)


# operators that address memory -------------------------------------------------------------------------------

MEMORY: Mapping[str, Callable[[Tensor], Any]] = {
    "as_strided": lambda x: (x.as_strided((2, 3), (3, 1), 2) * 2,),
    "as_strided without offset": lambda x: (x.as_strided((2, 2), (1, 2)) * 2,),
    "as_strided of a view": lambda x: (x[1:, 1:].as_strided((2, 3), (2, 1)) * 2,),
    "as_strided of a value": lambda x: ((x + 1).as_strided((2, 3), (1, 2), 1) * 2,),
    "as_strided of a view of a value": lambda x: ((x + 1)[1:].t().as_strided((2, 3), (1, 2), 1) * 2,),
    "as_strided_copy": lambda x: (
        torch.as_strided_copy(x, (3, 2), (1, 3), 1),
        torch.as_strided_copy(x + 1, (3,), (2,)),
    ),
    "as_strided_scatter": lambda x: (
        torch.as_strided_scatter(x, -counted(2, 2).to(x.device), (2, 2), (3, 1), x.storage_offset()) + 0,
    ),
    "as_strided_scatter of a value": lambda x: (
        torch.as_strided_scatter(x + 1, -counted(2, 2).to(x.device), (2, 2), (1, 3), 2) + 0,
    ),
    "as_strided_scatter outside": lambda x: (
        torch.as_strided_scatter(x[2:], -counted(2).to(x.device), (2,), (9,), 1) + 0,
    ),
    "as_strided as another type": lambda x: ((x + 1).view(torch.int32).as_strided((2, 2), (1, 3), 1) + 1,),
    "unfold": lambda x: (x.unfold(0, 2, 1) + 1, x.unfold(1, 3, 2) + 1, (x * 2).unfold(1, 2, 3) + 1),
    "unfold_copy": lambda x: (torch.unfold_copy(x, 0, 3, 1), torch.unfold_copy(x + 1, 1, 2, 2)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(("name", "layout"), list(itertools.product(MEMORY, LAYOUTS)))
def test_what_addresses_memory_finds_it(name: str, layout: str, dynamic: bool) -> None:
    def make(n: int = 4, m: int = 6) -> list[Tensor]:
        return [LAYOUTS[layout](n, m)]

    function = MEMORY[name]
    try:
        function(*make())
    except RuntimeError:
        pytest.skip("eager refuses this layout")
    gm, run = compiled(function, *make(), dynamic=dynamic)
    agree(function, make, run)
    if dynamic:
        agree(gm, lambda: make(6, 8), run)


def test_an_argument_may_begin_elsewhere_in_another_call() -> None:
    function = MEMORY["as_strided"]
    _, run = compiled(function, counted(4, 6))
    agree(function, lambda: [counted(6, 6)[2:]], run)

    def written_to(x: Tensor) -> Any:
        return [torch.as_strided_scatter(x, -counted(2).to(x.device), (2,), (1,), 13) + 0]

    _, run = compiled(written_to, counted(6, 6)[2:])
    agree(written_to, lambda: [counted(5, 6)[1:]], run)


@pytest.mark.parametrize("sizes", [(4, 0), (0, 4), (0,), (3, 0, 2)])
def test_an_empty_argument_has_no_memory(sizes: tuple[int, ...]) -> None:
    def written_to(x: Tensor) -> Any:
        return [torch.as_strided_scatter(x, x.new_ones(0), (0,), (2,)) + 0]

    def make() -> list[Tensor]:
        return [torch.arange(0.0).reshape(sizes)]

    _, run = compiled(written_to, *make())
    agree(written_to, make, run)


def test_memory_with_gaps_of_a_value_is_refused_with_the_operator() -> None:
    def between(x: Tensor) -> Any:
        holes = torch.ops.aten.copy.default(torch.ops.aten.new_empty_strided.default(x, (2, 3), (10, 2)), x)
        return [torch.ops.aten.as_strided.default(holes, (2, 2), (10, 2), 2) + 1]

    with pytest.raises(UnsupportedGraphError, match=r"aten\.as_strided\.default.*gaps"):
        compiled(between, counted(2, 3))


# the contract ------------------------------------------------------------------------------------------------


class Copies:
    """The reference engine with results that lie as nothing promises."""

    name = "copies"

    def __init__(self, spoil: Callable[[Tensor, Any], Tensor]) -> None:
        self.spoil = spoil

    def unavailable(self) -> None:
        return None

    def compile(self, program: Any, options: Any) -> Any:
        run, spoil = ReferenceEngine().compile(program, options), self.spoil

        class Compiled:
            def __call__(self, inputs: Any, assigned: Any) -> Any:
                return [spoil(result, inputs) for result in run(inputs, assigned)]

            def stats(self) -> Mapping[str, object]:
                return {}

            def close(self) -> None:
                pass

        return Compiled()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda result, inputs: result.t().contiguous().t(), r"has strides \(1, 2\), eager gives \(3, 1\)"),
        (lambda result, inputs: result.flatten(), r"has size \(6,\), eager gives \(2, 3\)"),
        (lambda result, inputs: result[:1], r"has size \(1, 3\), eager gives \(2, 3\)"),
        (lambda result, inputs: torch.cat([result, result])[2:], r"has an offset \(in bytes\) of 24, eager gives 0"),
        (lambda result, inputs: inputs[0], r"shares memory with argument 0, which it does not in eager"),
    ],
)  # fmt: skip
def test_verify_names_the_result_that_is_not_eagers(
    spoil: Callable[[Tensor, Any], Tensor], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(_engines.ENGINES, "copies", lambda: Copies(spoil))
    monkeypatch.setattr("air_geir._compile.generator_for", lambda engine: None)
    monkeypatch.setattr("air_geir._compile.options_for", lambda *given: EngineOptions({}, {}))
    config = CompilerConfig()
    config.mode = "max-autotune"
    config.air.verify = True
    x = counted(2, 3)
    gm = trace(lambda x: [x + 1], [x])
    run = compile_graph(gm, [x], engine="copies", settings=resolve(config, Context(device="cpu")))
    with pytest.raises(ContractError, match=said) as caught:
        run(x)
    assert "aten.add.Tensor" in str(caught.value)
    assert "please report it" in str(caught.value)
    assert ("torch._check" in str(caught.value)) == ("has size" in said)
    config.air.verify = False
    run = compile_graph(gm, [x], engine="copies", settings=resolve(config, Context(device="cpu")))
    run(x)
