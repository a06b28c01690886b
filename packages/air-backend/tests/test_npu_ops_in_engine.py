"""Every operator of torch_npu with a card, in the graph engine, against torch_npu's own."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from air_fxpasses.npu_ops.samples import Sample, samples
from npu_ops_on_device import assert_same, missing, moved, overload

pytestmark = [
    pytest.mark.npu("the operators are torch_npu's"),
    pytest.mark.skipif("torch_npu" not in sys.modules, reason="torch_npu is not loaded"),
    pytest.mark.filterwarnings("ignore"),
]

#: What torch itself does not trace: lists of results by keyword, and an operator without a fake kernel.
_UNTRACED = (
    "npu_fused_infer_attention_score.out",
    "npu_fused_infer_attention_score_v2.out",
    "npu_format_cast_.acl_format",
)
SAMPLES = [s for s in samples() if s.operator not in _UNTRACED and "max_workspace" not in s.operator]


def on_npu(sample: Sample) -> tuple[list[Any], Any]:
    """The arguments, one after the other, and how they are put together."""
    return tree_flatten(tree_map_only(torch.Tensor, moved, (sample.args, sample.kwargs)))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_an_operator_with_a_card_gives_and_writes_in_the_engine_what_torch_npu_does(sample: Sample) -> None:
    operator = overload(sample.operator)
    eager, shape = on_npu(sample)
    compiled, _ = on_npu(sample)
    tensors = [at for at, value in enumerate(compiled) if isinstance(value, torch.Tensor)]

    def call(*given: torch.Tensor) -> Any:
        values = list(compiled)
        for at, tensor in zip(tensors, given, strict=True):
            values[at] = tensor
        args, kwargs = tree_unflatten(values, shape)
        return operator(*args, **kwargs)

    options: dict[str, Any] = {"mode": "max-autotune", "unsupported": "error"}
    step: Any = torch.compile(call, backend="air", dynamic=False, options=options)
    with torch.no_grad(), missing():
        args, kwargs = tree_unflatten(eager, shape)
        wanted = tree_flatten((operator(*args, **kwargs),))[0]
        found = tree_flatten((step(*(compiled[at] for at in tensors)),))[0]
        torch.npu.synchronize()  # type: ignore[attr-defined]  # torch_npu adds it
    for index, (mine, theirs) in enumerate(zip(found, wanted, strict=True)):
        if index not in sample.unspecified and isinstance(mine, torch.Tensor):
            assert_same(mine.cpu(), theirs.cpu(), f"result {index}")
    for at in tensors:
        assert_same(compiled[at].cpu(), eager[at].cpu(), f"argument {at}")
