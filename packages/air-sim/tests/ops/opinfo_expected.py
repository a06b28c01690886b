"""Why some OpInfo cases cannot equal the CPU on the npu device: none of the reasons lies in air-sim's kernels."""

from __future__ import annotations

import re
from typing import Final

_RANDOM = "random numbers: the device's generator is another one"
_UNINITIALISED = "the values are uninitialised memory"
_MASK = "torch_npu returns the device's own form of the indices or mask"

_ROWS: Final = (
    (r"(new_)?empty(_like|_strided|_permuted)?-", _UNINITIALISED),
    (r"(exponential|uniform|multinomial|cauchy|geometric|log_normal|bernoulli|randperm)(\.\w+)?-", _RANDOM),
    (r"(rand|randn|randint)(_like)?-|normal(\.\w+)?-", _RANDOM),
    (r"nn\.functional\.((feature_)?(alpha_)?dropout[23]?d?|rrelu|fractional_max_pool[23]d)", _RANDOM),
    (r"nn\.functional\.(scaled_dot_product_attention|multi_head_attention_forward)-", _RANDOM + " (dropout)"),
    (r"native_dropout_backward-", "torch_npu keeps one bit per element in the mask, not a bool"),
    (r"nn\.functional\.(adaptive_)?max_pool[123]d(\.\w+)?-", _MASK),
    (r"_?native_batch_norm(_legit)?-", "torch_npu returns saved statistics in evaluation mode too"),
    (r"nn\.functional\.gelu-", "torch_npu computes the exact GELU whatever `approximate` says"),
    (r"logit-(int|bool|uint)", "torch_npu keeps integer data types"),
    (r"jiterator_", "CUDA only"),
    (r"stft-", "aclStft belongs to another library of CANN"),
    (r"sparse\.", "torch_npu has no sparse kernel for it"),
    (r"as_strided\.partial_views-", "the sample views memory that a copy to the device does not have"),
    (r"to-", "torch_npu supports only contiguous and preserved memory formats"),
    (r"tensor_split-", "torch wants the sections on the CPU"),
)


def reason_of(case: str) -> str | None:
    """The reason why a case is not expected to equal the CPU, or None."""
    return next((reason for pattern, reason in _ROWS if re.match(pattern, case)), None)
