"""Interpolations of permuted values, which torch_npu's refusal of memory formats kept every compiler from tracing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

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
