"""Records the code that Inductor generated for the CPU, kernel by kernel.

    buf0 = empty_strided_cpu(...)         a block, as any other of the run
    cpp_fused_add_0(arg0, buf0)           one task
    extern_kernels.addmm(..., out=buf0)   an operator, which the recorder sees by itself

A replay then calls the kernels alone: no allocation, no test of sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

if TYPE_CHECKING:
    from air_aclgraph.host._recorder import Recorder

_SEEN: Final = frozenset(
    (
        "assert_size_stride",
        "assert_size_stride_grouped",
        "assert_alignment",
        "extern_kernels",
        "aten",
        "torch",
        "inductor_ops",
        "inf",
        "nan",
    )
)
"""Names of generated code whose work the recorder sees, or that do none."""
_KERNEL: Final = "cpp_"


def why_unknown(generated: Any) -> str | None:
    """Why code of Inductor's cannot be recorded kernel by kernel, if it cannot."""
    call = generated.current_callable
    if not isinstance(call, FunctionType) or any(isinstance(c, CodeType) for c in call.__code__.co_consts):
        return "its generated code is no plain function"
    scope = call.__globals__
    unknown = [
        name
        for name in call.__code__.co_names
        if name in scope
        and name not in _SEEN
        and name not in _STAND_INS
        and not name.startswith(_KERNEL)
        and not isinstance(scope[name], Tensor)
    ]
    return f"its generated code calls {', '.join(unknown)}" if unknown else None


def record_generated(recorder: Recorder, generated: Any, args: list[Any]) -> Sequence[Any]:
    """Runs the code once, so that each of its kernels becomes a task."""
    call = generated.current_callable
    scope = dict(call.__globals__)
    scope.update(_STAND_INS)
    for name in call.__code__.co_names:
        if name.startswith(_KERNEL) and name in scope:
            scope[name] = partial(recorder.kernel, name, scope[name])
    results: Sequence[Any] = FunctionType(call.__code__, scope)(args)
    return results


def _empty(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> Tensor:
    return torch.empty_strided(size, stride, dtype=dtype)


def _looked_at(tensor: Tensor, size: Sequence[int], stride: Sequence[int], offset: int) -> Tensor:
    return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)


_STAND_INS: Final = {"empty_strided_cpu": _empty, "reinterpret_tensor": _looked_at}
"""What the recorder sees instead of what goes past the dispatcher."""
