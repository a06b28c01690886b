"""Memory for results, taken before the engine is called.

torch_npu keeps work in a queue on the host, which an engine empties before it launches its own. If the engine took
memory only then, it could get what another thread has just freed while a reader is still in that queue: the reader
would see the engine's results instead of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import make_contiguous_strides_for

from air_geir.ir import Dim, Expr
from air_geir.program import Program

Tensors = Sequence[torch.Tensor]
MaybeTensors = Sequence[torch.Tensor | None]
Take = Callable[[Tensors, MaybeTensors], MaybeTensors]


def result_memory(program: Program) -> Take:
    """A function that takes a call's inputs and assigned results, and allocates every result whose size it knows.

    Sizes follow from the sizes of the inputs; a result whose size only the engine knows stays None.
    """
    where = _symbols(program)
    names: dict[str, Any] = {"fast": _fast_empty(), "empty": torch.empty}
    results, used = [], set()
    for at, port in enumerate(program.graph.outputs):
        dims = port.desc.shape
        needed = {name for dim in dims or () if isinstance(dim, Expr) for name in dim.symbols()}
        if at in program.assigned:
            results.append(f"assigned[{at}]")
        elif dims is None or -1 in dims or not needed <= where.keys():
            results.append("None")
        else:
            names[f"type{at}"] = port.desc.dtype.torch
            used |= needed
            results.append(_taken(at, dims, fixed=not needed))
    lines = ["def take(inputs, assigned):"]
    lines.extend(f"    {name} = {where[name]}" for name in sorted(used))
    lines.append(f"    return [{', '.join(results)}]")
    exec("\n".join(lines), names)
    take: Take = names["take"]
    return take


def _taken(at: int, dims: Sequence[Dim], *, fixed: bool) -> str:
    size = "".join(f"{dim}, " for dim in dims)
    if fixed:
        strides = make_contiguous_strides_for(tuple(int(str(dim)) for dim in dims))
        return f"fast(({size}), {strides}, type{at})"
    return f"empty(({size}), dtype=type{at}, device='npu')"


def _symbols(program: Program) -> dict[str, str]:
    """Where a symbol is a dim of an input."""
    found: dict[str, str] = {}
    for at, node in enumerate(program.graph.inputs):
        for dim, size in enumerate(node.output.desc.shape or ()):
            if isinstance(size, Expr) and {str(size)} == size.symbols():
                found.setdefault(str(size), f"inputs[{at}].shape[{dim}]")
    return found


def _fast_empty() -> Callable[..., torch.Tensor]:
    """torch_npu's fast allocation for fixed sizes, or the ordinary one where it has none."""
    import torch_npu  # present whenever an engine of a device is

    fast: Callable[..., torch.Tensor] | None = getattr(torch_npu._C, "_empty_strided_npu", None)
    return fast or _plain_empty


def _plain_empty(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="npu")
