"""Through torch.compile, max-autotune gives what eager gives: values, strides, offsets, and who shares memory."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from air_backend._ground import npu_present

ENGINES = ["cpu", pytest.param("npu", marks=pytest.mark.npu("max-autotune does not serve CUDA tensors"))]
View = Callable[[Tensor], Any]
LAYOUTS: Mapping[str, Callable[[Tensor, int, int], Tensor]] = {
    "contiguous": lambda base, n, m: base[: n * m].view(n, m),
    "transposed": lambda base, n, m: base[: n * m].view(m, n).t(),
    "sliced": lambda base, n, m: base[: 2 * n * m].view(n, 2 * m)[:, ::2],
    "offset": lambda base, n, m: base[m : m + n * m].view(n, m),
    "expanded": lambda base, n, m: base[:m].view(1, m).expand(n, m),
}
VIEWS: Mapping[str, View] = {
    "chunk": lambda x: x.chunk(2, 1)[1],
    "split": lambda x: x.split([1, x.shape[1] - 1], 1)[1],
    "unbind": lambda x: x.unbind(0)[1],
    "narrow": lambda x: x.narrow(1, 1, 3),
    "select": lambda x: x.select(1, 2),
    "half": lambda x: x[:, : x.shape[1] // 2],
    "expand": lambda x: x.unsqueeze(1).expand(-1, 3, -1),
    "diagonal": lambda x: x.diagonal(1),
    "transpose": lambda x: x.transpose(0, 1),
    "unfold": lambda x: x.unfold(1, 2, 2),
    "heads": lambda x: x.view(x.shape[0], 2, x.shape[1] // 2).transpose(0, 1),
    "as_strided": lambda x: x.as_strided((2, 3), (3, 1), 1),
    "bits": lambda x: x.view(torch.int32),
}
FORMS: Mapping[str, Callable[[View], Callable[[Tensor], Any]]] = {
    "of the input": lambda view: lambda x: (view(x),),
    "of a value": lambda view: lambda x: (view(x * 2),),
    "with its base": lambda view: lambda x: beside(view, x + 1),
    "overlapping": lambda view: lambda x: overlapping(view, torch.relu(x)),
    "of a written input": lambda view: lambda x: written_input(view, x),
    "of a written value": lambda view: lambda x: written_value(view, x * 2),
}


def beside(view: View, h: Tensor) -> Any:
    return h, view(h), h.t()


def overlapping(view: View, h: Tensor) -> Any:
    return h[1:], view(h)


def written_input(view: View, x: Tensor) -> Any:
    x.add_(1)
    return view(x), x.sum()


def written_value(view: View, h: Tensor) -> Any:
    before = view(h)
    h.mul_(3)
    return before, h, view(h)


def compiled(function: Any, dynamic: bool | None = None, **options: Any) -> Any:
    return torch.compile(
        function, backend="air", options={"mode": "max-autotune", **options}, dynamic=dynamic
    )


def seen(results: Any, given: list[Tensor]) -> list[Any]:
    """How results lie, what they hold, and what a write to the first element of each changes."""
    facts: list[Any] = []
    for r in results:
        strides = tuple(0 if n == 1 else s for n, s in zip(r.shape, r.stride(), strict=True))
        facts.append((tuple(r.shape), strides, r.storage_offset(), r.dtype))
    facts.append([r.tolist() for r in results])
    for result in results:
        first = result.as_strided((1,), (1,), result.storage_offset())
        first.copy_(first * 0 + 77)
        facts.append([r.tolist() for r in (*results, *given)])
    return facts


def drawn(seed: int, count: int, device: str) -> int:
    """Compares programs drawn at random with eager; says how many there were. What aot_eager gives is torch's own."""
    draw, ran = random.Random(seed), 0
    while ran < count:
        layout, view, form = (draw.choice(list(table)) for table in (LAYOUTS, VIEWS, FORMS))
        sizes = draw.choice([[(4, 6)], [(4, 6), (4, 8), (4, 12)], [(4, 6), (5, 8), (6, 6)]])
        dynamic = draw.choice([False, None, True])
        function = FORMS[form](VIEWS[view])

        def given(n: int, m: int) -> list[Tensor]:
            base = torch.arange(160.0, device=device)
            return [LAYOUTS[layout](base, n, m), base]  # noqa: B023  # called in this turn

        wanted = []
        try:
            for n, m in sizes:
                x, base = given(n, m)
                wanted.append(seen(function(x), [base]))
        except RuntimeError:
            continue  # eager does not have this view of this layout
        torch._dynamo.reset()
        found = called(compiled(function, dynamic), given, sizes)
        if found != wanted:
            torch._dynamo.reset()
            theirs = called(torch.compile(function, backend="aot_eager", dynamic=dynamic), given, sizes)
            assert found == theirs, (layout, view, form, dynamic, sizes)
        ran += 1
    return ran


def called(run: Any, given: Any, sizes: list[tuple[int, int]]) -> list[Any]:
    facts = []
    for n, m in sizes:
        x, base = given(n, m)
        with torch.no_grad():
            facts.append(seen(run(x), [base]))
    return facts


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(3))
def test_programs_of_views_drawn_at_random_lie_as_in_eager(seed: int) -> None:
    assert drawn(seed, 12, "cpu") == 12


@pytest.mark.npu("max-autotune does not serve CUDA tensors")
def test_programs_of_views_drawn_at_random_lie_as_in_eager_on_an_npu() -> None:
    assert drawn(5, 12, "npu") == 12


@pytest.mark.slow
def test_many_programs_of_views_lie_as_in_eager() -> None:
    assert drawn(99, 400, "cpu") == 400


@pytest.mark.parametrize("device", ENGINES)
def test_the_second_chunk_of_an_input_is_right_for_every_size(device: str) -> None:
    run = compiled(lambda a: a.chunk(2, 1)[1])
    for n in (5, 6, 7):
        a = torch.arange(4.0 * n, device=device).reshape(4, n)
        found = run(a)
        assert torch.equal(found, a.chunk(2, 1)[1])
        assert found.data_ptr() == a.chunk(2, 1)[1].data_ptr()


@pytest.mark.parametrize("device", ENGINES)
def test_a_write_after_a_graph_break_reaches_the_values_that_share_memory(device: str) -> None:
    def broken(x: Tensor) -> Any:
        h = x * 2
        q, _ = h.chunk(2, -1)
        torch._dynamo.graph_break()
        q.mul_(10)
        return h + 0

    x = torch.arange(8.0, device=device).view(2, 4)
    assert torch.equal(compiled(broken)(x), broken(x))
    y, first = compiled(lambda x: beside(lambda h: h[0], x + 1)[:2])(x)
    first.fill_(5)
    assert y[0].tolist() == [5, 5, 5, 5]


def zeroed_between(b: Tensor) -> Tensor:
    b.view(-1)[::2].zero_()
    return b.tensor_split(3, 0)[1]


def second_over_first(b: Tensor) -> Tensor:
    first, second = b.chunk(2, 1)
    first[0:1] = second[0:1]
    return first


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [zeroed_between, second_over_first])
def test_a_part_of_a_written_input_with_an_offset_is_that_part(
    function: Callable[[Tensor], Tensor], mode: str, dynamic: bool
) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="air", dynamic=dynamic, options={"mode": mode})
    for first, rows in ((1, 3), (1, 3), (2, 3), (1, 4), (0, 5)):
        b, twin = (torch.arange(64.0).view(8, 8)[first : first + rows, ::2] for _ in range(2))
        found, expected = compiled(twin), function(b)
        assert torch.equal(found, expected)
        assert torch.equal(twin, b)
        assert found.storage_offset() == expected.storage_offset()
        assert found.untyped_storage()._cdata == twin.untyped_storage()._cdata


def test_batch_normalisation_trains_through_two_calls_before_one_backward() -> None:
    torch.manual_seed(0)
    values = torch.randn(4, 3, 5, 5)
    gradients = []
    for wrap in (lambda model: model, compiled):
        torch.manual_seed(0)
        model = nn.BatchNorm2d(3)
        run, x = wrap(model), values.clone().requires_grad_()
        (run(x).sigmoid().sum() + run(x * 2).pow(3).sum()).backward()
        assert x.grad is not None
        gradients.append((x.grad, model.weight.grad, model.running_mean, model.running_var))
    for found, wanted in zip(*reversed(gradients), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("device", ENGINES)
def test_views_saved_for_backward_are_read_as_they_lie(device: str) -> None:
    def step(x: Tensor, w: Tensor) -> Tensor:
        h = torch.mm(x.t() * 2, w).exp()
        q, k = h.chunk(2, 1)
        return (q.t().reshape(-1) * k.t().reshape(-1) * (h.t() * 3).t().exp()[:, 2:].t().reshape(-1)).sum()

    torch.manual_seed(0)
    x, w = torch.randn(5, 3) / 4, torch.randn(5, 4) / 4
    found = []
    for run in (step, compiled(step), compiled(step, True)):
        leaves = [t.to(device).requires_grad_() for t in (x, w)]
        run(*leaves).backward()
        found.append([t.grad.cpu() for t in leaves if t.grad is not None])
    for one in found[1:]:
        for got, wanted in zip(one, found[0], strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-4)


def test_a_training_step_with_views_saved_for_backward_gives_eagers_gradients() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            weights = (q * 1.5 @ k.transpose(-1, -2)).softmax(-1)
            result: Tensor = self.out((weights @ v).transpose(1, 2).flatten(2))
            return result

    torch.manual_seed(0)
    model = Attention()
    x = torch.randn(2, 5, 8)
    found = []
    for run in (model, compiled(model), compiled(model, True)):
        model.zero_grad()
        run(x).pow(2).sum().backward()
        found.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    for one in found[1:]:
        for got, wanted in zip(one, found[0], strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-4)


MISSTATED: dict[str, Callable[[torch.Tensor], Any]] = {
    "batch_norm": lambda x: torch.nn.functional.batch_norm(x.transpose(0, 1)[1:], None, None, training=True),
    "logsigmoid": lambda x: torch.nn.functional.logsigmoid(x.permute(3, 2, 1, 0)) * 2,
    "xlogy": lambda x: torch.xlogy(
        x[:, :, 0].permute(0, 2, 1), x[0, 0, 0].abs().view(1, 3, 1).expand(1, 3, 4)
    ),
    "floor": lambda x: torch.div(x.permute(3, 2, 1, 0), x[0, 0, 0, 0], rounding_mode="floor"),
    "shuffle": lambda x: torch.channel_shuffle(x.contiguous(memory_format=torch.channels_last), 2),
    "index_fill": lambda x: torch.index_fill(x[:, 1:].permute(3, 2, 1, 0), 1, torch.tensor([0]), 0.5) + 1,
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", MISSTATED)
def test_N25_a_result_whose_strides_torch_misstates_lies_as_in_eager(name: str, dynamic: bool) -> None:
    function = MISSTATED[name]
    torch._dynamo.reset()
    run = torch.compile(function, backend="air", dynamic=dynamic, options={"mode": "max-autotune"})
    x = torch.rand(5, 4, 3, 3)
    found, expected = run(x), function(x)
    torch.testing.assert_close(found, expected)
    assert (found.stride(), found.storage_offset()) == (expected.stride(), expected.storage_offset())


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_N25_results_that_share_memory_go_into_the_next_graph_as_views_of_one_tensor(mode: str) -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        v = a.repeat(2, 1)
        w = v.unsqueeze(0)
        torch._foreach_addcmul_([w], [w], [w], 2)
        v[b > 0] *= 2  # the graph breaks here, and both halves know that v and w are one memory
        return w.transpose(0, -1)

    torch._dynamo.reset()
    run = torch.compile(function, backend="air", dynamic=False, options={"mode": mode})
    for start in range(3):
        a = (torch.arange(4.0) + start).view(1, 4).expand(2, 4)
        torch.testing.assert_close(run(a, a[0]), function(a, a[0]))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_N25_a_part_that_is_the_whole_of_an_input_with_an_offset_is_found_after_writes(
    mode: str, dynamic: bool
) -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        part = b.narrow(1, 0, a.shape[0])
        part[torch.tensor([0, -1])] = 0.5
        part.lerp_(part, 0.5)
        return part

    torch._dynamo.reset()
    run = torch.compile(function, backend="air", dynamic=dynamic, options={"mode": mode})
    for start in (3, 3, 0, 5):
        found, expected = (torch.arange(12.0)[start : start + 6].reshape(3, 2) for _ in range(2))
        result, wanted = run(torch.ones(2, 3), found), function(torch.ones(2, 3), expected)
        assert torch.equal(result, wanted)
        assert torch.equal(found, expected)
        assert result.storage_offset() == wanted.storage_offset()


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_a_result_of_a_training_step_with_an_offset_may_be_written(mode: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        product = torch.bmm(x, x.mT)
        product.diagonal().fill_(1)
        return product

    torch._dynamo.reset()
    run = torch.compile(function, backend="air", dynamic=False, options={"mode": mode})
    for _ in range(3):
        result = run(torch.arange(27.0)[3:].reshape(3, 4, 2).requires_grad_())
        with torch.no_grad():
            result.copy_(result.flip(0))


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_a_product_with_an_imaginary_number_trains(mode: str) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 1j, x * 2

    torch._dynamo.reset()
    run = torch.compile(function, backend="air", dynamic=False, options={"mode": mode})
    found, expected = (
        torch.rand(3, generator=torch.Generator().manual_seed(0)).requires_grad_() for _ in range(2)
    )
    (torch.view_as_real(run(found)[0]).sum() + run(found)[1].sum()).backward()
    (torch.view_as_real(function(expected)[0]).sum() + function(expected)[1].sum()).backward()
    torch.testing.assert_close(found.grad, expected.grad)


@pytest.mark.npu("max-autotune does not serve CUDA tensors")
def test_a_graph_without_inputs_gives_tensors_of_the_npu() -> None:
    assert npu_present()
    found = compiled(lambda: torch.ones(3, device="npu") * 2)()
    assert found.device.type == "npu"
    assert found.tolist() == [2, 2, 2]


def test_verify_looks_at_every_call() -> None:
    run = compiled(lambda x: (x + 1, x.t()), **{"air.verify": True})
    for _ in range(2):
        run(torch.ones(2, 3))


def test_a_result_whose_axes_lie_in_another_order_is_no_view_that_autograd_refuses_to_write() -> None:
    def function(a: Tensor) -> Tensor:
        return a.contiguous(memory_format=torch.channels_last)

    torch._dynamo.reset()
    a = torch.arange(48.0).reshape(2, 6, 2, 2).requires_grad_()
    found = torch.compile(function, backend="air", options={"mode": "max-autotune"})(a)
    assert found._is_view() == function(a)._is_view()
    with torch.no_grad():
        found.mul_(2)
    found.sum().backward()
    assert a.grad is not None
    assert found.stride() == function(a).stride()


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_N25_results_of_a_training_step_that_share_memory_can_be_written(mode: str) -> None:
    def turned(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = (x * 2).squeeze(-1)
        for row in range(2):
            y[row].mul_(row)
        return y.t(), y

    def step(function: Callable[..., Any]) -> list[torch.Tensor]:
        x = torch.arange(4.0).reshape(2, 2).requires_grad_()
        transposed, plain = function(x)
        with torch.no_grad():
            plain[0][0] = 1
        (transposed.sum() + plain.sum()).backward()
        assert x.grad is not None
        return [transposed.detach(), plain.detach(), x.grad]

    compiled = step(torch.compile(turned, backend="air", options={"mode": mode}))
    assert all(map(torch.equal, compiled, step(turned)))


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_N25_views_of_a_value_that_is_no_result_stay_views_when_one_of_them_is_resized(mode: str) -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        v = a.cummax(0).values
        resized, other = v.broadcast_to(v.shape), v.squeeze(-1)
        torch.neg(b, out=resized)  # the graph breaks here: the result has another size than its memory
        return other, resized[1:]

    torch._dynamo.reset()
    run = torch.compile(function, backend="air", dynamic=True, options={"mode": mode})
    inputs = torch.arange(6.0), torch.arange(18.0).reshape(3, 6)
    with pytest.warns(UserWarning, match="resized"):
        expected = function(*inputs)
    assert all(map(torch.equal, run(*inputs), expected))


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_what_is_left_to_be_done_of_an_argument_is_done(mode: str, device: str) -> None:
    run = torch.compile(lambda x: x * 2, backend="air", options={"mode": mode})
    z = torch.tensor([1 + 2j, 3j], device=device)
    for given in (z, z.conj(), z.conj().imag, z.imag):
        assert run(given).resolve_conj().tolist() == (given * 2).resolve_conj().tolist()


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_the_gradient_of_a_product_with_an_imaginary_number_is_eagers(mode: str, device: str) -> None:
    run = torch.compile(lambda x: torch.view_as_real(x * 1j), backend="air", options={"mode": mode})
    x = torch.arange(4.0, device=device).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (run(x) * torch.tensor([2.0, 3.0], device=device)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0] * 4


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_what_a_scatter_copied_round_its_elements_is_shown_by_strides(mode: str, device: str) -> None:
    def function(x: Tensor) -> Tensor:
        return torch.slice_scatter(x, x[2:] * 2, 0, 2).as_strided((4,), (1,), 6)

    x = torch.arange(48.0, device=device).reshape(6, 8)[1:-1, ::2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = torch.compile(function, backend="air", options={"mode": mode})(x)
    assert found.tolist() == function(x).tolist()


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_one_part_of_what_a_scatter_copied_round_its_elements_is_shown(mode: str, device: str) -> None:
    """In max-autotune the part is refused, and the list of all parts went from one piece to the next."""

    def function(x: Tensor) -> Tensor:
        x.diagonal().fill_(3)
        part: Tensor = torch.as_strided(x, (4,), (2,)).split(1)[0]
        return part

    made = [torch.arange(240.0, device=device).reshape(4, 5, 2, 6)[1:-1, ..., ::2] for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = torch.compile(function, backend="air", options={"mode": mode})(made[0])
    want = function(made[1])
    torch.testing.assert_close(got, want, rtol=0, atol=0)
    torch.testing.assert_close(made[0], made[1], rtol=0, atol=0)


@pytest.mark.parametrize("device", ENGINES)
def test_a_gradient_of_a_size_that_only_the_call_tells_is_scattered(device: str) -> None:
    run = torch.compile(
        lambda x: x.topk(1, 0).values, backend="air", options={"mode": "max-autotune"}, dynamic=True
    )
    for rows in (4, 5):
        x = torch.arange(2.0 * rows, device=device).reshape(rows, 2)[:, ::2].requires_grad_()
        run(x).sum().backward()
        assert x.grad is not None
        assert x.grad.flatten().tolist() == [0.0] * (rows - 1) + [1.0]


def test_verify_does_not_hold_a_result_to_where_the_first_argument_began() -> None:
    def written(a: Tensor) -> Tensor:
        part = a[0:]
        part.relu_()
        return part.detach()

    options: Any = {"mode": "max-autotune", "air.verify": True}
    run = torch.compile(written, backend="air", dynamic=False, options=options)
    for whole in (torch.arange(6.0)[3:], torch.arange(3.0), torch.arange(6.0)[2:5]):
        found, expected = run(whole), written(whole)
        assert torch.equal(found, expected)
        assert found.data_ptr() == expected.data_ptr()
