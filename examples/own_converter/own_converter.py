"""A converter of your own: an operator that no list knows, as Ascend IR, proven on samples.

    python examples/own_converter/own_converter.py

Without it the operator runs in torch between two compiled pieces, and a warning says so.
"""

from __future__ import annotations

import torch
from torch import Tensor

from air_backend import CompilerConfig, get_npu_backend
from air_geir import Context, Sample, Value, converts
from air_geir.converters import SampleTensor
from air_geir.proof import check_converter


@torch.library.custom_op("example::soft_clip", mutates_args=())
def soft_clip(x: Tensor, limit: float) -> Tensor:
    return torch.tanh(x / limit) * limit


@soft_clip.register_fake
def _(x: Tensor, limit: float) -> Tensor:
    return torch.empty_like(x)


F32 = torch.float32
OPERATOR = torch.ops.example.soft_clip.default
SAMPLES = (
    Sample(SampleTensor(F32, (3, 4)), 2.0),
    Sample(SampleTensor(F32, (5,)), 0.5),
    Sample(SampleTensor(F32, (2, 0)), 1.0),  # sizes without elements are sizes too
)


@converts(OPERATOR, samples=SAMPLES)
def convert_soft_clip(ctx: Context, x: Value, limit: float) -> Value:
    """soft_clip(Tensor x, float limit) -> Tensor"""
    if limit == 0:
        ctx.refuse("the limit is 0", "give a limit that is not 0")
    return ctx.emit("Muls", ctx.emit("Tanh", ctx.emit("Muls", x, value=1 / limit)), value=limit)


def model(x: Tensor, w: Tensor) -> Tensor:
    return torch.ops.example.soft_clip(x @ w, 3.0) + 1


def main() -> None:
    proven = check_converter(OPERATOR) + check_converter(OPERATOR, dynamic=True)
    print(f"{proven} proofs on {len(SAMPLES)} samples, with fixed and with dynamic sizes")

    config = CompilerConfig()
    config.mode = "max-autotune"
    config.air.unsupported = "error"  # nothing may fall back to torch
    compiled = torch.compile(model, backend=get_npu_backend(compiler_config=config), dynamic=True)
    with torch.no_grad():
        for rows in (2, 5):
            x, w = torch.randn(rows, 4), torch.randn(4, 6)
            torch.testing.assert_close(compiled(x, w), model(x, w))
    print("the model is one Ascend IR graph, and computes what eager computes")


if __name__ == "__main__":
    main()
