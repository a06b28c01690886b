"""An operator written for Ascend (AscendC): in torch by its schema, in CANN by its type, in both modes.

    python examples/own_operator/own_operator.py

On an NPU a package of CANN brings the kernel, the shape function and the entry `aclnnRotateHalves`; a torch extension
binds it to the device's dispatch key. What is in this file is the rest: schema, size of the result, a CPU kernel to
test against, the twin that writes in place, and the Ascend IR type. The reference engine needs a kernel as well,
because here no CANN has one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from air_backend import CompilerConfig, get_npu_backend
from air_geir import register_by_schema
from air_geir.reference import kernel

# 1. The schemas: `(a!)` is all that AIR knows of what an operator writes, so it must be the truth.
LIBRARY = torch.library.Library("vendor", "DEF")
LIBRARY.define("rotate_halves(Tensor x, float angle) -> Tensor")
LIBRARY.define("rotate_halves_(Tensor(a!) x, float angle) -> ()")


def rotated(x: Tensor, angle: float) -> Tensor:
    """Turns the first half of each row into the second, by an angle."""
    left, right = x.chunk(2, -1)
    cos, sin = torch.cos(torch.tensor(angle)).item(), torch.sin(torch.tensor(angle)).item()
    return torch.cat((left * cos - right * sin, left * sin + right * cos), -1)


# 2. Kernels: here for CPU tensors. Where you have an NPU: LIBRARY.impl(..., "PrivateUse1"), from your extension.
LIBRARY.impl("rotate_halves", rotated, "CPU")


@torch.library.impl(LIBRARY, "rotate_halves_", "CPU")
def write_rotated(x: Tensor, angle: float) -> None:
    x.copy_(rotated(x, angle))


# 3. Sizes and types without computing: what compilers trace with.
@torch.library.register_fake("vendor::rotate_halves")
def _(x: Tensor, angle: float) -> Tensor:
    torch._check(x.shape[-1] % 2 == 0, lambda: "rotate_halves: the last size must be even")
    return torch.empty_like(x)


@torch.library.register_fake("vendor::rotate_halves_")
def _(x: Tensor, angle: float) -> None:
    return None


# 4. The Ascend IR type: tensors of the schema are its inputs, the rest its attributes.
PROTOTYPE = register_by_schema(torch.ops.vendor.rotate_halves.default)


# 5. The type's kernel for machines without CANN; not needed on an NPU.
@kernel("RotateHalves")
def reference_kernel(op):  # type: ignore[no-untyped-def]
    angle = op.attr("angle")
    return lambda x: rotated(x, angle)


def step(x: Tensor, w: Tensor) -> Tensor:
    return torch.ops.vendor.rotate_halves(x @ w, 0.5) + x


def update(state: Tensor, x: Tensor) -> Tensor:
    torch.ops.vendor.rotate_halves_(state, 0.25)  # in place: the caller's tensor is written where it is
    return state + x


def main() -> None:
    print("Ascend IR:", PROTOTYPE)
    x, w = torch.randn(4, 8), torch.randn(8, 8)
    torch.library.opcheck(
        torch.ops.vendor.rotate_halves.default, (x, 0.5)
    )  # torch's own test of all the above
    for mode in ("reduce-overhead", "max-autotune"):
        torch._dynamo.reset()
        config = CompilerConfig()
        config.set("mode", mode)
        compiled = torch.compile(step, backend=get_npu_backend(compiler_config=config), fullgraph=True)
        torch.testing.assert_close(compiled(x, w), step(x, w))
        print(f"{mode}: what eager computes")

    ours, theirs = x.clone(), x.clone()
    in_place = torch.compile(update, backend="air", mode="reduce-overhead", fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(in_place(ours, x), update(theirs, x))
        torch.testing.assert_close(ours, theirs)
    print("the twin wrote the caller's tensor, three times")


if __name__ == "__main__":
    main()
