"""Whether all that is computed of a value is linear in it: twice the value gives twice the results.

    tangent ─► expand ─► mul(.., saved) ─► mm(.., saved) ─► gradient        linear
    tangent ─► clamp ─► gradient                                            not known to be linear: `clamp`

The rules say of each operator which sums of products its result is. An operator without a rule is not known to be
linear: a program's own derivative formula may do anything.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import Node

from air_graph._links import link_of
from air_graph._uses import named_arguments, nodes_in

FORMULAS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "aten::_fft_c2c",
            "aten::_fft_c2r",
            "aten::_fft_r2c",
            "aten::_to_copy",
            "aten::_unsafe_index",
            "aten::_unsafe_view",
            "aten::channel_shuffle",
            "aten::clone",
            "aten::col2im",
            "aten::conj_physical",
            "aten::contiguous",
            "aten::cumsum",
            "aten::diag_embed",
            "aten::div.Scalar",
            "aten::div.Tensor",
            "aten::flip",
            "aten::gather",
            "aten::im2col",
            "aten::index.Tensor",
            "aten::index_select",
            "aten::mean",
            "aten::neg",
            "aten::pixel_shuffle",
            "aten::pixel_unshuffle",
            "aten::positive",
            "aten::repeat",
            "aten::reshape",
            "aten::roll",
            "aten::rot90",
            "aten::sum",
            "aten::take",
            "aten::trace",
            "aten::tril",
            "aten::triu",
        ),
        "self",
    ),
    **dict.fromkeys(("aten::add", "aten::sub", "aten::where"), "self + other"),
    **dict.fromkeys(
        (
            "aten::as_strided_scatter",
            "aten::diagonal_scatter",
            "aten::scatter.src",
            "aten::scatter_add",
            "aten::select_scatter",
            "aten::slice_scatter",
        ),
        "self + src",
    ),
    **dict.fromkeys(
        ("aten::index_add", "aten::index_copy", "aten::masked_scatter"),
        "self + source",
    ),
    **dict.fromkeys(("aten::_unsafe_index_put", "aten::index_put"), "self + values"),
    **dict.fromkeys(
        ("aten::constant_pad_nd", "aten::index_fill", "aten::masked_fill", "aten::scatter.value"),
        "self + value",
    ),
    **dict.fromkeys(("aten::cat", "aten::stack"), "tensors"),
    **dict.fromkeys(("aten::bmm", "aten::mm"), "self * mat2"),
    "aten::addbmm": "self + batch1 * batch2",
    "aten::addcdiv": "self + tensor1",
    "aten::addcmul": "self + tensor1 * tensor2",
    "aten::addmm": "self + mat1 * mat2",
    "aten::addmv": "self + mat * vec",
    "aten::baddbmm": "self + batch1 * batch2",
    "aten::complex": "real + imag",
    "aten::copy": "src",
    "aten::convolution": "input * weight + bias",
    "aten::dot": "self * tensor",
    "aten::linalg_solve_triangular": "B",
    "aten::mul": "self * other",
    "aten::mv": "self * vec",
    "npu::npu_fusion_attention_grad": "dy",
    "npu::npu_rms_norm_backward": "dy",
    "prims::convert_element_type": "a",
}
"""Operator -> the sum of products of its arguments that it is linear in; the other arguments decide how.

In each product one factor follows the value, or one is zero.
"""

NARROW: Final = frozenset(
    {torch.float16, torch.complex32, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz}
    | {torch.float8_e5m2fnuz}
)
"""Numbers of a range so narrow that twice a value may be none of them, or half of it zero."""

_ZEROS: Final = frozenset({"zeros", "zeros_like", "new_zeros", "_efficientzerotensor"})
_FILLED: Final[Mapping[str, str]] = {"full": "fill_value", "full_like": "fill_value", "new_full": "fill_value",
                                     "scalar_tensor": "s"}  # fmt: skip
_AS_ZERO_AS_ITS_SOURCE: Final = frozenset({"clone", "_to_copy", "convert_element_type"})
_ASKS_THE_FORM: Final = frozenset(
    {"empty_like", "full_like", "new_empty", "new_full", "new_ones", "new_zeros", "ones_like", "zeros_like"}
    | {"sym_numel", "sym_size", "sym_storage_offset", "sym_stride"}
)
"""Operators that read the size and the type of a tensor, and none of its elements."""
_DERIVATIVES: Final = ("_backward", "_backward_data")
"""How torch ends the names of its operators that compute derivatives: linear in gradients, by definition."""


@dataclass(frozen=True, slots=True)
class NotLinear:
    """The first node that is not known to be linear in a value, and why."""

    node: Node
    reason: str


def why_not_linear(source: Node, *, narrow: bool = False) -> NotLinear | None:
    """None where every value computed from `source` is linear in it, else the first one that may not be.

    Unless `narrow` is given, values in float16 and float8 are none: a factor may push them out of their range.
    """
    following = {source}
    for node in source.graph.nodes:
        if not _follows(node, following):
            continue
        following.add(node)
        reason = _obstacle(node, following) or _bad_numbers(node, narrow)
        if reason is not None:
            return NotLinear(node, reason)
    return None


def followers_of(source: Node) -> set[Node]:
    """Every node that is computed from the elements of a value, with the value itself."""
    found = {source}
    for node in source.graph.nodes:
        if _follows(node, found):
            found.add(node)
    return found


def _follows(node: Node, following: set[Node]) -> bool:
    """Whether a node reads elements of what follows, and not its size or type alone."""
    name = getattr(node.target, "_opname", "")
    return (
        node.op == "call_function"
        and name not in _ASKS_THE_FORM
        and not following.isdisjoint(node.all_input_nodes)
    )


def formula_of(op: torch._ops.OpOverload) -> str | None:
    """What an operator's result is linear in, as a sum of products of its arguments; None where nothing is known."""
    schema = op._schema
    packet = schema.name
    if formula := FORMULAS.get(f"{packet}.{schema.overload_name}") or FORMULAS.get(packet):
        return formula
    if op.namespace in ("aten", "npu") and packet.endswith(_DERIVATIVES):
        gradients = (
            a.name for a in schema.arguments if a.name.startswith("grad") and "Tensor" in str(a.type)
        )
        return " + ".join(gradients) or None
    return None


def _obstacle(node: Node, following: set[Node]) -> str | None:
    """Why a node is not linear in what follows."""
    if node.target is operator.getitem:
        return None
    if not isinstance(node.target, torch._ops.OpOverload):
        return f"{node.target} is not known to be linear in a gradient"
    given = named_arguments(node, node.target)
    if (link := link_of(node)) is not None and link.base in following:
        return None if len(following.intersection(node.all_input_nodes)) == 1 else "a gradient decides a view"
    if node.target._schema.is_mutable:
        return f"{node.target} writes"
    formula = formula_of(node.target)
    if formula is None:
        return f"{node.target} is not known to be linear in a gradient"
    return _misfit(node, formula, given, following)


def _misfit(node: Node, formula: str, given: Mapping[str, Any], following: set[Node]) -> str | None:
    """Why a call is not what the formula of its operator says."""
    sums = [[name.strip() for name in product.split("*")] for product in formula.split("+")]
    named = {name for product in sums for name in product}
    for name, value in given.items():
        if name not in named and following.intersection(nodes_in(value)):
            return f"{node.target} is not known to be linear in its argument {name}"
    for product in sums:
        factors = [given.get(name) for name in product]
        follow = [value for value in factors if following.intersection(nodes_in(value))]
        if len(follow) > 1:
            return f"{node.target} multiplies a gradient by a gradient"
        if follow and not all(leaf in following or _is_zero(leaf) for leaf in _leaves(follow[0])):
            return f"{node.target} joins a gradient with something else"
        if not follow and not any(_is_zero(value) for value in factors):
            return f"{node.target} adds {' * '.join(product)} to a gradient"
    return None


def _bad_numbers(node: Node, narrow: bool) -> str | None:
    """Why the numbers of a node cannot be scaled."""
    value = node.meta.get("val")
    for each in value if isinstance(value, (list, tuple)) else (value,):
        if not isinstance(each, torch.Tensor):
            if each is not None:
                return "a gradient becomes a number of the host"
        elif not (each.dtype.is_floating_point or each.dtype.is_complex):
            return f"a gradient becomes {each.dtype}"
        elif each.dtype in NARROW and not narrow:
            return f"a gradient is {each.dtype}, whose range is too narrow to scale it afterwards"
    return None


def _leaves(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _is_zero(value: Any) -> bool:
    """Whether an argument is known to be zero, or left out."""
    if value is None:
        return True
    if isinstance(value, (int, float, complex)):
        return value == 0 and not math.isnan(abs(value))
    if isinstance(value, (list, tuple)):
        return all(_is_zero(each) for each in value)
    if not isinstance(value, Node) or not isinstance(value.target, torch._ops.OpOverload):
        return False
    if (link := link_of(value)) is not None:
        return _is_zero(link.base)
    name = value.target._opname
    if name in _AS_ZERO_AS_ITS_SOURCE:
        return _is_zero(value.args[0])
    return name in _ZEROS or _is_zero_filled(value, name)


def _is_zero_filled(node: Node, name: str) -> bool:
    if name not in _FILLED:
        return False
    filled = named_arguments(node, node.target).get(_FILLED[name])  # type: ignore[arg-type]  # an OpOverload
    return filled is not None and _is_zero(filled)
