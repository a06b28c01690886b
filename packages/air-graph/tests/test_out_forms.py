"""The overloads that write into given memory are found by schema, and only those that save something."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from air_graph import OutForm, out_form_of

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("functional", "out", "names"),
    [
        (aten.add.Tensor, aten.add.out, ("out",)),
        (aten.mean.dim, aten.mean.out, ("out",)),
        (aten.max.dim, aten.max.dim_max, ("max", "max_values")),
        (aten.topk.default, aten.topk.values, ("values", "indices")),
        (aten.pow.Tensor_Scalar, aten.pow.Tensor_Scalar_out, ("out",)),
    ],
)
def test_the_overload_with_the_same_arguments_is_taken(
    functional: OpOverload, out: OpOverload, names: tuple[str, ...]
) -> None:
    found = out_form_of(functional)
    assert found is not None
    assert (found.out, found.names) == (out, names)


@pytest.mark.parametrize(
    "functional", [aten.embedding.default, aten.native_layer_norm.default, aten.add_.Tensor]
)
def test_generated_and_in_place_overloads_do_not_count(functional: OpOverload) -> None:
    assert out_form_of(functional) is None


def test_a_kernel_of_another_device_does_not_count() -> None:
    assert out_form_of(aten.addr.default, "cpu") is not None
    assert out_form_of(aten.addr.default, "npu") is None


@pytest.mark.parametrize(
    "functional",
    [
        aten.binary_cross_entropy.default,
        aten.huber_loss.default,
        aten.mse_loss.default,
        aten.smooth_l1_loss.default,
    ],
)
def test_a_kernel_that_needs_more_memory_than_its_result_has_does_not_count(functional: OpOverload) -> None:
    assert out_form_of(functional, "cpu") is None


def test_a_kernel_that_adds_to_what_it_finds_in_its_result_does_not_count() -> None:
    operator = aten._compute_linear_combination
    terms, factors = torch.randn(3, 2, 2), torch.randn(2, 3)
    found = operator.out(terms, factors, out=torch.ones(2, 2, 2))
    torch.testing.assert_close(found, operator.default(terms, factors) + 1)
    assert out_form_of(operator.default, "cpu") is None


class OutFormsTried(TorchDispatchMode):
    """Has every operator with an `.out` form computed by that as well, into memory of the size of its results."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tried: set[str] = set()
        self.wrong: dict[str, str] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        results = func(*args, **(kwargs or {}))
        form = out_form_of(func, "cpu")
        if (
            form is not None
            and torch.Tag.nondeterministic_seeded not in func.tags
            and func not in WRITES_STATISTICS
        ):
            self.tried.add(str(func))
            problem = written_wrong(form, args, kwargs or {}, results)
            if problem:
                self.wrong.setdefault(str(func), problem)
        return results


#: They write running statistics that the schema does not show: a second run reads others.
WRITES_STATISTICS = (aten.native_batch_norm.default, aten._native_batch_norm_legit.no_stats)


def written_wrong(form: OutForm, args: Any, kwargs: Any, results: Any) -> str:
    """What an `.out` form does otherwise than fill memory that lies as its results; empty where it does that."""
    expected = list(results) if isinstance(results, (tuple, list)) else [results]
    if any(one.layout is not torch.strided for one in expected):
        return ""
    memory = [torch.empty_strided(one.shape, one.stride(), dtype=one.dtype) for one in expected]
    before = [(one.data_ptr(), one.shape, one.stride(), one.untyped_storage().nbytes()) for one in memory]
    try:
        form.out(*args, **kwargs, **dict(zip(form.names, memory, strict=True)))
        after = [(one.data_ptr(), one.shape, one.stride(), one.untyped_storage().nbytes()) for one in memory]
        if before != after:
            return f"{before} became {after}"
        torch.testing.assert_close(memory, expected, equal_nan=True)
    except (AssertionError, RuntimeError) as wrong:
        return str(wrong)
    return ""


def turned(x: Any) -> Any:
    if not isinstance(x, Tensor) or x.layout is not torch.strided or x.dim() < 2:
        return x
    return x.detach().mT.contiguous().mT.requires_grad_(x.requires_grad)


def calls(operator: Any, dtype: torch.dtype) -> Iterator[Callable[[], Any]]:
    """Samples of an operator as they are and with their last axes turned round, with gradients where it has some."""
    trains = dtype is torch.float32 and operator.supports_autograd
    for sample in itertools.islice(operator.sample_inputs("cpu", dtype, requires_grad=trains), 6):
        for lay in (lambda x: x, turned):
            given = tree_map(lay, (sample.input, sample.args, sample.kwargs))
            yield partial(run, operator, given)


def run(operator: Any, given: Any) -> None:
    first, args, kwargs = given
    results = [
        x for x in tree_leaves(operator(first, *args, **kwargs)) if isinstance(x, Tensor) and x.requires_grad
    ]
    operands = [x for x in tree_leaves(given) if isinstance(x, Tensor) and x.requires_grad]
    if results and operands:
        torch.autograd.grad(results, operands, [torch.ones_like(x) for x in results], allow_unused=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_out_form_fills_memory_of_the_size_of_its_results() -> None:
    from torch.testing._internal.common_methods_invocations import op_db  # seconds, and the test is slow

    mode = OutFormsTried()
    for operator in op_db:
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.complex64, torch.bool):
            if dtype not in operator.supported_dtypes("cpu"):
                continue
            for call in calls(operator, dtype):
                with mode, contextlib.suppress(Exception):  # eager does not take every layout
                    call()
    assert not mode.wrong, "\n".join(f"{name}: {problem}" for name, problem in mode.wrong.items())
    assert len(mode.tried) > 300
