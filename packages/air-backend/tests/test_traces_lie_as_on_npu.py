"""Layouts and types while torch traces, and what follows from them, are those of eager on an NPU."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from air_backend.errors import GraphSplit
from air_fxpasses.npu_ops.samples import Sample, samples
from air_graph import state_dense_results_on_npu
from air_graph.testing.stated import StatedOtherwise, run_laid_out_anyhow
from npu_ops_on_device import overload

pytestmark = pytest.mark.npu("torch_npu lays results out in its own way")


def branches(x: Tensor) -> Tensor:
    y = x.t() * 2
    return y.sum(0) if y.is_contiguous() else y.sum(1)


def reads_a_stride(x: Tensor) -> Tensor:
    return torch.relu(x.t()).stride(0) * x


def takes_a_view(x: Tensor) -> Tensor:
    return (x.t() + 1).view(-1)


def writes_through_a_view(x: Tensor) -> Tensor:
    y = x.t() * 2
    y.flatten().add_(1)
    return y


def writes_into_a_copy(x: Tensor) -> Tensor:
    y = x.t() * 2
    y.t().reshape(-1).add_(1)
    return y


def rounds_whole_numbers(x: Tensor) -> Tensor:
    y = x.to(torch.int32).t().round()
    y.t().reshape(-1).add_(1)
    return y


def trains(x: Tensor) -> Tensor:
    w = x.detach().requires_grad_()
    (w.t().exp().view(-1) * torch.arange(float(x.numel()), device=x.device)).sum().backward()
    assert w.grad is not None
    return w.grad


def trains_through_strides(x: Tensor) -> Tensor:
    w = x.detach().requires_grad_()
    (w.t() * 2).as_strided((3,), (2,)).sum().backward()
    assert w.grad is not None
    return w.grad


PROGRAMS = (
    branches, reads_a_stride, takes_a_view, writes_through_a_view, writes_into_a_copy, rounds_whole_numbers, trains,
    trains_through_strides,
)  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_N25_a_program_that_looks_at_layouts_gives_what_eager_gives(
    program: Callable[[Tensor], Tensor], mode: str, dynamic: bool
) -> None:
    torch._dynamo.reset()
    run = torch.compile(program, backend="air", dynamic=dynamic, options={"mode": mode})
    for rows in (3, 5):
        x = torch.arange(4.0 * rows).reshape(rows, 4).to("npu")
        found, expected = run(x.clone()), program(x.clone())
        torch.testing.assert_close(found, expected)
        assert found.stride() == expected.stride()


def test_what_eager_refuses_is_refused() -> None:
    def function(x: Tensor) -> Tensor:
        return (x.t() + 1).t().view(-1)

    x = torch.ones(3, 4).to("npu")
    for run in (function, torch.compile(function, backend="air")):
        with pytest.raises(RuntimeError, match="view"):
            run(x)


POOLS = (
    lambda x: torch.nn.functional.max_pool3d(x, 2, return_indices=True),
    lambda x: torch.nn.functional.adaptive_max_pool3d(x, 2, return_indices=True),
    lambda x: torch.nn.functional.adaptive_max_pool3d(x, 3, return_indices=True),
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("pool", POOLS, ids=["windows", "even windows", "uneven windows"])
def test_N25_places_of_maxima_have_the_type_that_eager_gives_and_cut_no_graph(
    pool: Callable[[Tensor], tuple[Tensor, Tensor]],
    mode: str,
    dtype: torch.dtype,
    recwarn: pytest.WarningsRecorder,
) -> None:
    torch._dynamo.reset()
    x = torch.randn(2, 3, 4, 4, 4, dtype=dtype).to("npu")
    found, places = torch.compile(pool, backend="air", options={"mode": mode})(x)
    expected, expected_places = pool(x)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(places, expected_places)
    # torch_npu makes adaptive pools of float64 on the host
    cuts = [str(one.message) for one in recwarn if issubclass(one.category, GraphSplit)]
    assert dtype is torch.float64 or not cuts


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("shape", [(6, 5), (2, 5, 3, 4)], ids=str)
def test_labels_of_32_bits_which_an_npu_takes_are_compiled(shape: tuple[int, ...], mode: str) -> None:
    torch._dynamo.reset()
    loss = torch.nn.functional.cross_entropy
    labels = torch.randint(0, 5, (shape[0], *shape[2:]), dtype=torch.int32).to("npu")
    x = torch.randn(shape).to("npu").requires_grad_()
    found = torch.compile(loss, backend="air", fullgraph=True, options={"mode": mode})(x, labels)
    (gradient,) = torch.autograd.grad(found, x)
    expected = loss(x, labels)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradient, *torch.autograd.grad(expected, x))


#: Pools on a chip that gives places in 64 bits.
NEWER = """
import torch, torch_npu
pool = lambda x: torch.nn.functional.adaptive_max_pool3d(x, 3, return_indices=True)
x = torch.randn(2, 3, 4, 4, 4).to("npu")
found, places = torch.compile(pool, backend="air", options={"mode": "max-autotune"})(x)
expected, expected_places = pool(x)
assert expected_places.dtype is torch.int64 is places.dtype
assert torch.equal(found, expected) and torch.equal(places, expected_places)
"""


def test_N25_a_newer_chip_gives_them_in_another_type() -> None:
    there = os.environ | {"AIR_SIM_SOC": "Ascend950PR_9599"}
    done = subprocess.run(
        [sys.executable, "-c", NEWER], env=there, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


#: A program that imports torch_npu after it has made AIR's backend.
LATE = """
import sys, torch
from air_backend import air
assert "torch_npu" not in sys.modules
import torch_npu
x = torch.arange(12.0).reshape(3, 4).to("npu")
run = torch.compile(lambda x: (x.t() + 1).view(-1), backend=air)
assert torch.equal(run(x), (x.t() + 1).view(-1))
"""


def test_N25_torch_npu_that_is_imported_after_air_is_known_by_the_first_trace() -> None:
    late = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run([sys.executable, "-c", LATE], env=late, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


#: Results that lie now one way and now another, by their operands or by what an operator is made of.
BOTH_WAYS = frozenset(
    {"aten::_linalg_svd", "aten::linalg_solve_triangular", "aten::native_dropout_backward", "aten::softplus_backward",
     "aten::special_xlog1py", "aten::rot90", "aten::copysign", "aten::heaviside", "aten::_fft_r2c", "aten::_to_copy",
     "aten::linalg_cholesky"}
)  # fmt: skip


def _turned(x: Any) -> Any:
    """On the NPU, with the axes reversed in memory."""
    if not isinstance(x, Tensor) or x.layout is not torch.strided:
        return x
    axes = tuple(reversed(range(x.dim())))
    return x.detach().permute(axes).contiguous().to("npu").permute(axes)


@contextmanager
def _where_it_runs(seen: StatedOtherwise) -> Iterator[None]:
    """Looks at what is run inside; what the device refuses is another test's."""
    with suppress(Exception):
        with seen:
            yield
        torch.get_device_module("npu").synchronize()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.bool], ids=str)
def test_N25_every_operator_lies_on_an_npu_as_is_said_to_torch(refusing: str, dtype: torch.dtype) -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    state_dense_results_on_npu()  # as the backend does
    seen = StatedOtherwise("npu")
    for op in op_db:
        if dtype not in op.dtypes or op.name.startswith(("jiterator", "nn.functional.fractional_max_pool3d")):
            continue
        for sample in _wide_samples(op, dtype):
            first, args, kwargs = tree_map(_turned, (sample.input, sample.args, sample.kwargs))
            with _where_it_runs(seen):
                op.op(first, *args, **kwargs)
    assert seen.asked > 500
    lies_otherwise = {name for name, what in seen.found.items() if "strides" in what}
    assert lies_otherwise <= BOTH_WAYS, sorted(lies_otherwise - BOTH_WAYS)


#: Results of another type than is said to torch: what torch_npu says itself, or cannot hold, or nobody reads.
OTHER_TYPES = frozenset(
    {
        "aten::_to_copy",
        "aten::max_pool2d_with_indices",
        "aten::native_batch_norm",
        "aten::_native_batch_norm_legit",
    }
)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_every_result_and_gradient_has_on_an_npu_the_type_that_is_said_to_torch(
    refusing: str, dtype: torch.dtype
) -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    state_dense_results_on_npu()
    seen = StatedOtherwise("npu")
    for op in op_db:
        if dtype not in op.backward_dtypes or not op.supports_autograd or op.name.startswith("jiterator"):
            continue
        for sample in list(op.sample_inputs("cpu", dtype, requires_grad=True))[:4]:
            first, args, kwargs = tree_map(_leaf, (sample.input, sample.args, sample.kwargs))
            with _where_it_runs(seen):
                made = tree_leaves(op.op(first, *args, **kwargs))
                ends = [x for x in made if isinstance(x, Tensor) and x.requires_grad]
                torch.autograd.backward(ends, [torch.ones_like(end) for end in ends])
    assert seen.asked > 5000
    typed_otherwise = {name for name, what in seen.found.items() if "dtype" in what}
    assert typed_otherwise <= OTHER_TYPES, sorted(typed_otherwise - OTHER_TYPES)


def _leaf(x: Any) -> Any:
    return x.detach().to("npu").requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x


def _wide_samples(op: Any, dtype: torch.dtype) -> list[Any]:
    """Samples with a tensor of several axes that have a length, and one of two axes for elementwise operators."""
    from torch.testing._internal.opinfo.core import BinaryUfuncInfo, SampleInput, UnaryUfuncInfo

    try:
        samples = list(op.sample_inputs("cpu", dtype))
    except Exception:  # some make tensors of types that this machine has none of
        return []
    wide = [one for one in samples if any(map(_is_wide, tree_leaves((one.input, one.args, one.kwargs))))][:8]
    if isinstance(op, (UnaryUfuncInfo, BinaryUfuncInfo)) and samples:
        ones = [torch.ones(4, 5, dtype=dtype) for _ in range(1 + isinstance(op, BinaryUfuncInfo))]
        wide.append(SampleInput(ones[0], args=tuple(ones[1:]), kwargs=samples[0].kwargs))
    return wide


def _is_wide(x: object) -> bool:
    return isinstance(x, Tensor) and x.dim() > 1 and min(x.shape) > 1


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(4))
def test_N25_gradients_of_turned_tensors_lie_on_an_npu_as_is_said_to_torch(refusing: str, shard: int) -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    state_dense_results_on_npu()
    chance, seen = random.Random(shard), StatedOtherwise("npu")
    for op in op_db[shard::4]:
        if torch.float32 not in op.dtypes or op.name.startswith("jiterator"):
            continue
        for sample in list(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd))[:4]:
            with _where_it_runs(seen):
                run_laid_out_anyhow(chance, partial(_operator, op.op, sample), "npu")
    assert seen.asked > 2000
    lies_otherwise = {name for name, what in seen.found.items() if "strides" in what}
    assert lies_otherwise <= BOTH_WAYS, sorted(lies_otherwise - BOTH_WAYS)


def _operator(op: Any, sample: Any, lay: Callable[[Any], Any]) -> tuple[Any, Any]:
    first, args, kwargs = operands = tree_map(lay, (sample.input, sample.args, sample.kwargs))
    return op(first, *args, **kwargs), operands


@pytest.mark.slow
def test_N25_operators_of_torch_npu_and_their_gradients_lie_as_is_said_to_torch(refusing: str) -> None:
    state_dense_results_on_npu()
    chance, seen = random.Random(0), StatedOtherwise("npu")
    for sample in samples():
        for _ in range(6):
            with _where_it_runs(seen):
                run_laid_out_anyhow(chance, partial(_operator_of_torch_npu, sample), "npu")
    assert seen.asked > 500
    assert {name for name, what in seen.found.items() if "strides" in what} == set()


def _operator_of_torch_npu(sample: Sample, lay: Callable[[Any], Any]) -> tuple[Any, Any]:
    args, kwargs = operands = tree_map(lay, tree_map(_trained, (sample.args, sample.kwargs)))
    return overload(sample.operator)(*args, **kwargs), operands


def _trained(x: Any) -> Any:
    is_number = isinstance(x, Tensor) and x.is_floating_point()
    return x.clone().requires_grad_() if is_number else x


def attended(x: Tensor) -> Any:
    """Heads are turned before attention and back after it, as models do."""
    heads = x.half().view(2, 6, 4, 16).transpose(1, 2)
    names = {"num_heads": 4, "input_layout": "BNSD", "scale_value": 0.25}
    found = torch.ops.npu.npu_prompt_flash_attention(heads, heads, heads, **names)
    return found.transpose(1, 2).reshape(2, 6, 64), found.is_contiguous()


def normed(x: Tensor) -> Any:
    found = torch.ops.npu.npu_rms_norm(x.transpose(0, 1), x[0, 0] + 1, 1e-6)[0]
    return found.view(-1), found.is_contiguous()


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("function", [attended, normed])
def test_N25_what_operators_of_torch_npu_make_of_turned_tensors_is_viewed_as_in_eager(
    function: Callable[[Tensor], Any], mode: str
) -> None:
    x = torch.randn(2, 6, 64, device="npu")
    compiled = torch.compile(function, backend="air", options={"mode": mode})
    for _ in range(3):
        (found, is_dense), (wanted, was_dense) = compiled(x), function(x)
        assert (is_dense, found.stride()) == (was_dense, wanted.stride())
        torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-2)
