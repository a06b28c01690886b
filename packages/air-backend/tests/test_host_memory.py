"""Tensors of the CPU in a program of a device: results, writes and random numbers are those of eager."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

Program = Callable[[Tensor, Tensor], tuple[Tensor, ...]]
HELD = torch.ones(3, 4)


def view_and_base(x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    y = h * 2
    return y, y[0], x


PROGRAMS: dict[str, Program] = {
    "computed": lambda x, h: (x * 2, h + 1),
    "views": lambda x, h: ((h + 1)[1:], (h + 1).t(), x),
    "shared": view_and_base,
    "copied": lambda x, h: (x.cpu().topk(2)[0], x.topk(2)[0].cpu(), x + 1),
    "there and back": lambda x, h: ((x.cpu() + h).to(x.device) * 2,),
    "parts": lambda x, h: (h.split(2)[0].to(x.device) + 1, h.split(2)[1]),
    "pair": lambda x, h: (x * 2, h.topk(2)[0]),
    "constants": lambda x, h: (torch.arange(5) + 1, torch.tensor(2.5), x * torch.tensor(2.5)),
    "held": lambda x, h: (HELD + h, x * HELD.to(x.device)),
    "doubles": lambda x, h: ((h.double() / 3).sum(), x),
    "both in one list": lambda x, h: (*torch._foreach_neg([h, x]), torch._foreach_add([x, h], 1)[1] + 1),
    "sized by data": lambda x, h: (h.nonzero(), x.nonzero().cpu(), x * 2),
    "written": lambda x, h: (h[1].mul_(2), x.cpu().sum(), x * h.sum().to(x.device)),
    "written from the device": lambda x, h: (h.copy_(x) + 1,),
    "written to the device": lambda x, h: (x.copy_(h) + 1,),
    "mask": lambda x, h: (x.masked_scatter(x > 0, x * 2), torch.index_put(x, (h > 0,), x.new_zeros(()))),
    "mask of rows": lambda x, h: (torch.index_put(x * 2, (h[:, 0] > 0,), x.new_zeros(4)), x[h > 0] + 1),
    "index": lambda x, h: (x[h[:, 0].long().abs() % 3], h[h[:, 0].long().abs() % 3]),
}


def given(device: str, number: int) -> tuple[Tensor, Tensor]:
    values = torch.arange(12.0).reshape(3, 4) * 5 % 37 - 17
    return values.to(device) + number, values + number


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_N25_results_are_on_the_device_that_eager_gives_them(
    accelerator: str, name: str, mode: str, dynamic: bool
) -> None:
    program = PROGRAMS[name]
    torch._dynamo.reset()
    step = torch.compile(program, backend="air", options={"mode": mode}, dynamic=dynamic)
    for number in range(3):
        mine, eagers = given(accelerator, number), given(accelerator, number)
        results, expected = step(*mine), program(*eagers)
        for one, other in zip((*results, *mine), (*expected, *eagers), strict=True):
            torch.testing.assert_close(one, other)  # the device as well
            assert (one.stride(), one.storage_offset()) == (other.stride(), other.storage_offset())
        if name == "shared":
            results[0].zero_()
            assert not results[1].any()


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_N25_a_number_that_is_cast_on_the_host_stays_there(accelerator: str, mode: str) -> None:
    torch._dynamo.reset()

    def cast(x: Tensor, number: Tensor) -> tuple[Tensor, ...]:
        return x + number.half(), number.half(), x * number.long()

    step = torch.compile(cast, backend="air", options={"mode": mode})
    for value in (1.3, 2.7, 1.3):
        x, number = torch.arange(3.0, device=accelerator), torch.tensor(value)
        for one, other in zip(step(x, number), cast(x, number), strict=True):
            torch.testing.assert_close(one, other)  # the device as well


RANDOM: dict[str, Program] = {
    "returned": lambda x, h: (x * 2, torch.rand(5)),
    "moved": lambda x, h: (x * torch.rand(4).to(x.device),),
    "used": lambda x, h: (x * 2, torch.rand(5).topk(2)[0]),
    "dropout": lambda x, h: (torch.nn.functional.dropout(h, 0.5), x * 2),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_N25_random_numbers_of_the_cpu_are_those_of_its_generator(
    accelerator: str, name: str, mode: str
) -> None:
    program = RANDOM[name]
    torch._dynamo.reset()
    step = torch.compile(program, backend="air", options={"mode": mode})

    def drawn(function: Program, number: int) -> tuple[Tensor, ...]:
        torch.manual_seed(number)
        return (*function(*given(accelerator, number)), torch.rand(1))

    for number in range(4):
        torch.testing.assert_close(drawn(step, number), drawn(program, number))


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_where_no_cut_is_wanted_the_operator_and_the_line_are_named(accelerator: str, mode: str) -> None:
    torch._dynamo.reset()
    options: dict[str, Any] = {"mode": mode, "air.uncapturable": "error", "air.unsupported": "error"}
    step = torch.compile(RANDOM["returned"], backend="air", options=options)
    with pytest.raises(Exception, match=r"(?s)aten.rand.default.*test_host_memory.py"):
        step(*given(accelerator, 0))


@pytest.mark.npu("max-autotune does not serve CUDA tensors")
def test_what_only_the_device_reads_is_no_cut_in_max_autotune() -> None:
    torch._dynamo.reset()
    step = torch.compile(
        lambda x: x + torch.arange(4).to(x.device), backend="air", options={"mode": "max-autotune"}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x, _ = given("npu", 0)
        torch.testing.assert_close(step(x), x + torch.arange(4).to("npu"))


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_a_jagged_tensor_runs_as_in_eager(accelerator: str, mode: str) -> None:
    """Its lengths go through the graph as tensors of the CPU that no operator reads."""
    torch._dynamo.reset()
    step = torch.compile(lambda x: x.sin() * 2, backend="air", options={"mode": mode})
    for rows in (2, 3, 4):
        parts = [torch.randn(2, 4).to(accelerator), torch.randn(rows, 4).to(accelerator)]
        jagged: Any = torch.nested.nested_tensor(parts, layout=torch.jagged)
        result: Any = step(jagged)
        torch.testing.assert_close(result.values(), jagged.values().sin() * 2)
        torch.testing.assert_close(result.offsets(), jagged.offsets())


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("operator", [torch.fmax, torch.hypot, torch.nextafter, torch.maximum])
@pytest.mark.filterwarnings("ignore:CAUTION", "ignore::air_backend.errors.GraphSplit")
def test_N25_what_torch_npu_hands_to_the_cpu_lies_as_the_cpu_lays_it(
    accelerator: str, operator: Any, mode: str
) -> None:
    torch._dynamo.reset()
    step = torch.compile(lambda x, y: operator(x, y.max()), backend="air", options={"mode": mode})
    x = torch.arange(6.0).reshape(2, 3).to(accelerator).t()
    expected = operator(x, x.max())
    result = step(x, x)
    torch.testing.assert_close(result, expected)
    assert result.stride() == expected.stride()


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_eight_bit_floats_are_cast(accelerator: str, mode: str, dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    step = torch.compile(
        lambda x, y: (x.to(dtype).float(), y.float() * 2), backend="air", options={"mode": mode}
    )
    x = (torch.arange(4.0) / 3).to(accelerator)
    torch.testing.assert_close(step(x, x.to(dtype)), (x.to(dtype).float(), x.to(dtype).float() * 2))


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("write", [False, True])
def test_N25_pinned_memory_is_the_caller_s_again_when_the_call_returns(
    write: bool, accelerator: str, mode: str
) -> None:
    """A copy that was not asked to go on has taken what it needs, however busy the device is."""

    def read(h: Tensor, w: Tensor) -> Tensor:
        return w.copy_(h) * 1 if write else h.to(w.device) * w

    run = torch.compile(read, backend="air", options={"mode": mode})
    host, busy = torch.zeros(1 << 18).pin_memory(), torch.ones(300, 300, device=accelerator)
    with torch.no_grad():
        for number in range(12):
            host.fill_(float(number))
            for _ in range(3):
                busy = (busy @ busy).clamp(0, 1)
            made = run(host, torch.ones(1 << 18, device=accelerator))
            host.fill_(-1.0)
            assert bool((made.cpu() == number).all())
