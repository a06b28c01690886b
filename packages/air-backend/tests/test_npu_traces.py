"""What kernels of torch_npu kept every compiler from tracing: permuted interpolations, operators that need memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

from air_backend._npu_traces import COMPOSED, trace_on_npu
from transforms import LAYERS, Composition, batched, columns, slope_and_value, softmax

pytestmark = pytest.mark.npu("torch_npu refuses memory formats while torch traces")

WAYS: dict[str, dict[str, Any]] = {
    "nearest, as large": {"size": (4, 4), "mode": "nearest"},
    "nearest": {"scale_factor": 2.0, "mode": "nearest"},
    "bilinear, as large": {"size": (4, 4), "mode": "bilinear"},
    "bilinear": {"size": (7, 9), "mode": "bilinear", "align_corners": True},
    "bicubic, as large": {"size": (4, 4), "mode": "bicubic"},
    "bicubic": {"size": (7, 9), "mode": "bicubic"},
    "smoothed": {"size": (3, 3), "mode": "bilinear", "antialias": True},
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("way", WAYS)
def test_N25_what_was_permuted_is_interpolated_and_lies_as_in_eager(way: str, mode: str) -> None:
    def positions(x: Tensor) -> Tensor:
        return nn.functional.interpolate(x.permute(0, 3, 1, 2), **WAYS[way])

    torch._dynamo.reset()
    run = torch.compile(positions, backend="air", dynamic=False, options={"mode": mode})
    for seed in range(2):
        x = torch.randn(1, 4, 4, 24, generator=torch.Generator().manual_seed(seed)).to("npu")
        found, expected = run(x), positions(x)
        torch.testing.assert_close(found, expected)
        assert found.stride() == expected.stride()


def test_N25_a_format_that_an_npu_does_not_have_is_refused_as_in_eager() -> None:
    def asked(x: Tensor) -> Tensor:
        return (x + 1).contiguous(memory_format=torch.channels_last)

    x = torch.randn(1, 3, 4, 4, device="npu")
    for function in (asked, torch.compile(asked, backend="air")):
        with pytest.raises(RuntimeError, match="only supported contiguous memory format"):
            function(x)


CALLS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "fill_diagonal_": lambda x, y: (x * 1).fill_diagonal_(7.0),
    "fill_diagonal_ of an argument": lambda x, y: x.fill_diagonal_(7.0, wrap=True),
    "max.out": lambda x, y: torch.max(x, y, out=torch.empty_like(x)),
    "min.out": lambda x, y: torch.min(x, y, out=torch.empty_like(x)),
    "nanmean.out": lambda x, y: torch.nanmean(x, 0, out=x.new_empty(4)),
    "log_sigmoid.out": lambda x, y: torch.ops.aten.log_sigmoid.out(x, out=torch.empty_like(x)),
    "slogdet": lambda x, y: torch.slogdet(x @ x.t() + torch.eye(4, device=x.device)),
    "multilabel_margin_loss.out": lambda x, y: torch.ops.aten.multilabel_margin_loss.out(
        x, torch.zeros_like(x, dtype=torch.long), 1, out=x.new_empty(())
    ),
    "one_hot": lambda x, y: nn.functional.one_hot((x > 0).long(), 3),
    "one_hot of int32": lambda x, y: nn.functional.one_hot((x > 0).int(), num_classes=3),
    "one_hot of as many classes as there are": lambda x, y: nn.functional.one_hot(
        (x > 0).long(), num_classes=-1
    ),
}


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_N25_an_operator_whose_own_kernel_needs_memory_is_traced(name: str, mode: str) -> None:
    torch._dynamo.reset()
    run = torch.compile(CALLS[name], backend="air", dynamic=False, options={"mode": mode})
    for seed in range(3):
        x, y = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(seed)).to("npu")
        torch.testing.assert_close(run(x.clone(), y), CALLS[name](x.clone(), y))


def test_every_operator_that_is_traced_as_torch_composes_it_is_composed_by_torch() -> None:
    assert all(operator.has_kernel_for_dispatch_key(_COMPOSITE) for operator in COMPOSED)


_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


def _forms(op: Any, sample: Any) -> Iterator[tuple[Callable[..., Any], Any]]:
    """The ways to call an operator, each with its arguments: as a function, as a method, in place, with `out=`."""
    given = (sample.input, sample.args, sample.kwargs)
    for call in (op.op, op.method_variant, op.inplace_variant):
        if call is not None:
            yield (lambda x, args, kwargs, call=call: call(x, *args, **kwargs)), given
    if op.supports_out:
        result = op.op(sample.input, *sample.args, **sample.kwargs)
        places = tree_map_only(Tensor, torch.zeros_like, result)
        yield (lambda x, args, kwargs, out: op.op(x, *args, **kwargs, out=out)), (*given, places)


def _is_traced(call: Callable[..., Any], given: Any) -> bool:
    mode = FakeTensorMode()
    fakes = tree_map_only(Tensor, mode.from_tensor, given)
    try:
        with mode, enable_python_dispatcher():
            call(*fakes)
    except Exception:
        return False
    return True


def _runs(call: Callable[..., Any], given: Any) -> bool:
    try:
        call(*given)
        torch.get_device_module("npu").synchronize()
    except Exception:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_N25_what_runs_on_an_npu_and_is_traced_for_a_cpu_is_traced_for_an_npu(
    refusing: str, dtype: torch.dtype
) -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    trace_on_npu()
    refused, asked = set(), 0
    for op in op_db:
        if dtype not in op.dtypes or op.name.startswith("jiterator"):
            continue
        for sample in list(op.sample_inputs("cpu", dtype))[:4]:
            for call, given in _forms(op, sample):
                there = tree_map_only(Tensor, lambda x: x.detach().clone().to("npu"), given)
                if not _is_traced(call, given):
                    continue
                is_traced = _is_traced(call, there)
                if _runs(call, there):
                    asked += 1
                    refused |= set() if is_traced else {op.name}
    assert asked > 500
    assert not refused


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_N25_a_gradient_that_torch_computes_in_its_own_thread_is_traced(mode: str) -> None:
    """That thread has no Python code above the operator: nobody to ask whether a decomposition calls."""
    drawn = Composition(
        0, (LAYERS.index(softmax),), (batched, slope_and_value, columns), False, (True, False)
    )
    torch._dynamo.reset()
    run = torch.compile(drawn.function, backend="air", dynamic=False, options={"mode": mode})
    with torch._dynamo.config.patch(trace_autograd_ops=True):
        found = drawn.played(run, "npu")
    torch.testing.assert_close(found, drawn.played(drawn.function, "npu"))
