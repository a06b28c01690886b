"""Tells torch how results lie on an NPU while it traces, and of which type they are, where its fake kernels state else.

    y = x.t() + 1      torch: like x.t(); torch_npu: dense
    y.view(-1)         runs in eager, and could not be traced

What follows from a layout is decided once, in the trace: whether a `reshape` is a view or a copy, what `stride()` and
`is_contiguous()` say. So with every compiler a write to a `reshape` went to a copy where eager has a view, or the other
way round. How a result lies is what `_device_layouts` says; here it is said before anything follows from it.

A few kernels of torch_npu give another type as well. In eager a cast to the stated type is made where it matters (the
gradient of a weight in half precision comes in single precision, and autograd casts it); a trace that states the type
already has no such cast, or has one that a compiler takes away.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch._prims_common import is_contiguous_or_false
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map_only

from air_graph._device_layouts import copies_integers_on_npu, is_dense_on_npu

aten = torch.ops.aten

_DONE: Final = "_air_graph_states_dense_results"

#: Of an operator's results, by place.
Types = Mapping[int, torch.dtype]

#: The first chip, as torch_npu counts them, whose adaptive pools give places in 64 bits.
_LONG_PLACES: Final = 260


def _of_gradients(grad: FakeTensor) -> Types:
    return {1: torch.float32, 2: torch.float32}


def _of_maxima(x: FakeTensor) -> Types:
    return {1: torch.int32}


def _of_adaptive_maxima(x: FakeTensor) -> Types:
    """torch_npu computes those of float64 on the host."""
    return {} if x.dtype is torch.float64 or _chip() >= _LONG_PLACES else {1: torch.int32}


#: Operator -> the types of its results on an NPU that are not those its fake kernel states, for its first operand.
_TYPES: Final[Mapping[OpOverload, Callable[[FakeTensor], Types]]] = {
    aten.native_layer_norm_backward.default: _of_gradients,
    aten.native_batch_norm_backward.default: _of_gradients,
    aten.max_pool3d_with_indices.default: _of_maxima,
    aten.adaptive_max_pool3d.default: _of_adaptive_maxima,
}


@functools.cache
def _chip() -> int:
    """The number of the chip; 0 without torch_npu."""
    if "torch_npu" not in sys.modules:
        return 0
    number: int = torch.get_device_module("npu").utils.get_soc_version()
    return number


def state_dense_results_on_npu() -> None:
    """Serves fake tensors of an NPU alone, whichever compiler traces; does nothing the second time.

    It does not ask whether torch_npu is there: a program may import it later.
    """
    stated = FakeTensorMode._dispatch_impl
    if hasattr(stated, _DONE):
        return

    @functools.wraps(stated)
    def dispatched(self: FakeTensorMode, func: Any, types: Sequence[type], args: Any, kwargs: Any) -> Any:
        result: Any = stated(self, func, types, args, kwargs)
        if not any(map(_is_on_npu, tree_leaves(result))):
            return result  # kernels of torch_npu are asked for once it is there: the answers are kept
        if func in _TYPES:
            result = _typed(self, result, _TYPES[func](args[0]))
        if not _may_lie_otherwise(func) or copies_integers_on_npu(func, args[0] if args else None):
            return result
        return tree_map_only(FakeTensor, functools.partial(_dense, self), result)

    setattr(dispatched, _DONE, True)
    FakeTensorMode._dispatch_impl = dispatched  # type: ignore[method-assign]
    FakeTensorMode.cache_clear()  # of results that were stated before


@functools.cache
def _may_lie_otherwise(func: Any) -> bool:
    """Whether an operator makes its results in memory of their own, which torch_npu lays out densely."""
    if not isinstance(func, OpOverload) or func.is_view or not is_dense_on_npu(func):
        return False
    if any(returned.alias_info is not None for returned in func._schema.returns):
        return False
    kernels = [
        torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)
        for key in ("CompositeImplicitAutograd", "PrivateUse1")
    ]
    return kernels != [True, False]  # what is made of other operators lies as their results do


def _is_on_npu(value: object) -> bool:
    return isinstance(value, FakeTensor) and value.device.type == "npu"


def _typed(mode: FakeTensorMode, results: Sequence[Any], types: Types) -> tuple[Any, ...]:
    """The results, some of them of another type."""
    return tuple(
        _of_type(mode, value, types[at]) if at in types and _is_on_npu(value) else value
        for at, value in enumerate(results)
    )


def _of_type(mode: FakeTensorMode, value: FakeTensor, dtype: torch.dtype) -> FakeTensor:
    if value.dtype == dtype:
        return value
    meta = torch.empty_strided(value.shape, value.stride(), dtype=dtype, device="meta")
    return FakeTensor(mode, meta, value.device)


def _dense(mode: FakeTensorMode, value: FakeTensor) -> FakeTensor:
    if not _is_on_npu(value) or value.layout is not torch.strided or is_contiguous_or_false(value):
        return value
    meta = torch.empty(value.shape, dtype=value.dtype, device="meta")
    return FakeTensor(mode, meta, value.device, real_tensor=value.real_tensor)
