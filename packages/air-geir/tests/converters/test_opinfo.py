"""Torch's own operator samples (OpInfo) through the reference engine, against eager torch."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from air_geir.errors import UnsupportedGraphError
from air_geir.proof import check_call

RANDOM = {
    "bernoulli", "multinomial", "rand_like", "randint", "randint_like", "randn", "randn_like", "normal", "uniform",
    "exponential", "geometric", "log_normal", "cauchy", "nn.functional.dropout", "nn.functional.dropout2d",
    "nn.functional.dropout3d", "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout", "native_dropout",
    "nn.functional.rrelu", "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
    "bernoulli_", "pca_lowrank", "svd_lowrank", "nn.functional.scaled_dot_product_attention",
    "torch.ops.aten._efficient_attention_forward", "nn.functional.multi_head_attention_forward",
}  # fmt: skip
"""Draw from a generator: the reference engine's stream is not the CPU's (see test_random.py)."""
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
NOT_COMPARABLE = {
    "item": "gives a Python number",
    "allclose": "gives a Python number",
    "equal": "gives a Python number",
    "corrcoef": "asks for a Python number while it is traced",
    "cov": "asks for a Python number while it is traced",
    "tensor_split": "asks for the data of a tensor while it is traced",
    "narrow": "asks for the data of a tensor while it is traced",
    "nn.functional.gaussian_nll_loss": "asks for a Python number while it is traced",
    "addbmm": "adds the products in another order: torch's own table gives it a tolerance of its own",
    "as_strided": "reads beyond the view it is given",
}
if torch.__version__ < "2.12":
    NOT_COMPARABLE["nanquantile"] = "asks for the data of a tensor while torch 2.11 traces it"
SAID: dict[str, dict[str, Any]] = {
    "sort": {"stable": True},
    "argsort": {"stable": True},
    "nn.functional.one_hot": {"num_classes": 10},
}
"""Whole numbers have equal elements, whose order torch promises only when asked; classes are counted at run time."""
SKIPPED_PREFIXES = ("linalg.", "sparse", "signal", "masked.", "torch.ops", "jiterator", "nn.functional.ctc")


def chosen(dtype: torch.dtype) -> list[Any]:
    """The operators of torch's table that take this type and can be compared."""
    return [
        op
        for op in op_db
        if dtype in op.supported_dtypes("cpu")
        and op.name not in RANDOM | UNDEFINED | set(NOT_COMPARABLE)
        and not op.name.startswith(SKIPPED_PREFIXES)
    ]


CHOSEN = chosen(torch.float32)
INTEGERS = [
    (op, dtype) for dtype in (torch.int64, torch.int32, torch.uint8, torch.bool) for op in chosen(dtype)
]
IN_CI = CHOSEN[::6]
"""Every sixth, which keeps the session short; `-m slow` runs them all, with more samples."""


OFF_BY_ONE = {("nn.functional.interpolate.bicubic", torch.uint8)}
"""Eager computes them in fixed point, and rounds a weight to so many bits."""
UNTRACED = {"geqrf", "histogramdd", "resize_", "resize_as_", "to_sparse"}
"""torch itself has no fake kernel for them, or fails on sizes of its own: they cannot be traced with dynamic sizes."""


def check(op: Any, count: int, dynamic: bool, dtype: torch.dtype = torch.float32) -> None:
    """The first samples of an operator that is supported as a whole; an unsupported one must say so."""
    for sample in islice(op.sample_inputs("cpu", dtype), count):

        def call(*args: Any, **kwargs: Any) -> Any:
            return op.op(*args, **kwargs)

        kwargs = dict(sample.kwargs) | (SAID.get(op.name, {}) if not sample.args else {})
        try:
            check_call(call, (sample.input, *sample.args), kwargs, dynamic=dynamic)
        except UnsupportedGraphError as refused:
            pytest.skip(f"no translation: {', '.join(sorted({u.target for u in refused.found}))}")


@pytest.mark.parametrize("op", IN_CI, ids=lambda op: op.full_name)
def test_N03_samples_of_torch_give_what_eager_gives(op: Any) -> None:
    check(op, 1, False)


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("op", CHOSEN, ids=lambda op: op.full_name)
def test_N03_every_sample_of_torch_gives_what_eager_gives(op: Any, dynamic: bool) -> None:
    if dynamic and op.name in UNTRACED:
        pytest.skip("torch cannot trace it with dynamic sizes")
    check(op, 4, dynamic)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("op", "dtype"), INTEGERS, ids=[f"{op.full_name}-{str(dtype)[6:]}" for op, dtype in INTEGERS]
)
def test_N03_samples_of_whole_numbers_give_what_eager_gives(op: Any, dtype: torch.dtype) -> None:
    if (op.full_name, dtype) in OFF_BY_ONE:
        with pytest.raises(AssertionError, match="Greatest absolute difference: 1 "):
            check(op, 2, False, dtype)
    else:
        check(op, 2, False, dtype)
