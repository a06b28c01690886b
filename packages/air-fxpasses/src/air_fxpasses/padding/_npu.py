"""What operators of `npu::` do to padding: those that compute row by row, and a write by number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from air_fxpasses.padding import _writes
from air_fxpasses.padding._call import Call
from air_fxpasses.padding._labels import Labels, Unproven, joined


def _of_rows(*names: str, mixed: Callable[[Call], int]) -> Callable[[Call], tuple[Labels, ...]]:
    """The last `mixed` dimensions of these arguments depend on one another; results begin with those before."""

    def rule(call: Call) -> tuple[Labels, ...]:
        labels = call.labels(names[0])
        if any(call.labels(name) != labels for name in names[1:]):
            raise Unproven("its operands are padded in different places")
        whole = len(labels) - mixed(call)
        call.require_none(labels[whole:], "it computes across the padded dimension")
        for other in set(call.arguments) - set(names):
            call.require_none(
                [label for _, each in call.tensors(other) for label in each], f"its {other} has padding"
            )
        return tuple((*labels[:whole], *[None] * output.dim())[: output.dim()] for output in call.outputs())

    return rule


def _gamma(call: Call) -> int:
    return len(call.labels("gamma"))


def _last(call: Call) -> int:
    return 1


def _all(call: Call) -> int:
    return 0


def _quantised(call: Call) -> tuple[Labels, ...]:
    """`npu_dynamic_quant`: a scale for each row, where neither the whole tensor nor a group of rows shares one."""
    if call["quant_mode"] != "pertoken" or call["group_index"] is not None:
        raise Unproven("rows share a scale")
    return _of_rows("input", mixed=_last)(call)


def _halves(call: Call) -> tuple[Labels, ...]:
    """`npu_swiglu`: halves of a dimension are multiplied."""
    labels = call.labels("input")
    call.require_none(
        [labels[dim] for dim in call.dims("dim", len(labels))], "halves of the padded dimension meet"
    )
    return (labels,)


def _rotated(call: Call) -> tuple[Labels, ...]:
    """`npu_rotary_mul`: elements of the last dimension meet, angles are broadcast."""
    labels = joined([call.one("input"), call.one("r1"), call.one("r2")], len(call.labels("input")))
    call.require_none(labels[-1:], "it computes across the padded dimension")
    if call["rotate"] is not None:
        raise Unproven("nobody has said what its matrix does to padding")
    return (labels,)


def _scattered(call: Call) -> tuple[Labels, ...]:
    """`npu_scatter_nd_update`: the last dimension of the indices is the place of one row."""
    labels, indices = call.labels("input"), call.labels("indices")
    call.require_none(labels, _writes.PADDED)
    call.require_none(indices[-1:], "the place of a row is taken from several rows")
    _writes.require_copies(call, call["indices"], call["updates"])
    updates = call.labels("updates")
    if updates[: len(indices) - 1] != indices[:-1] or any(updates[len(indices) - 1 :]):
        raise Unproven("its operands are padded in different places")
    return (labels,)


RULES: Final[Mapping[str, Callable[[Call], tuple[Labels, ...]]]] = {
    "_npu_dtype_cast": _of_rows("input", mixed=_all),
    "npu_add_rms_norm": _of_rows("x1", "x2", mixed=_gamma),
    "npu_add_rms_norm_cast": _of_rows("x1", "x2", mixed=_gamma),
    "npu_dtype_cast": _of_rows("input", mixed=_all),
    "npu_dynamic_quant": _quantised,
    "npu_rms_norm": _of_rows("input", mixed=_gamma),
    "npu_rotary_mul": _rotated,
    "npu_scatter_nd_update": _scattered,
    "npu_swiglu": _halves,
}
