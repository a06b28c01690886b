"""How torch_npu lays out values, where that is not what torch's example values say.

Torch describes a result of `x.t() + 1` as lying like `x.t()`. The kernels of torch_npu allocate dense results, except
for operators that copy the layout of their operand, and operators that torch_npu has no kernel for. What a graph on an
NPU gives its caller has the layout that eager gives there.
"""

from __future__ import annotations

import operator
from functools import cache
from typing import Any, Final

import torch
from torch import fx

from air_graph._examples import computing_examples, mode_of
from air_graph._links import Link, link_of
from air_graph._offsets import as_its_base
from air_graph._out_forms import out_form_of
from air_graph._region import same_extents
from air_graph._uses import bodies_of

aten = torch.ops.aten

_LIKE_OPERAND: Final = frozenset(
    (
        aten.clone.default,
        aten._to_copy.default,
        aten.empty_like.default,
        aten.zeros_like.default,
        aten.ones_like.default,
        aten.full_like.default,
        aten.rand_like.default,
        aten.randn_like.default,
        aten.randint_like.default,
        aten.gelu.default,
        aten.fill.Scalar,
        aten.fill.Tensor,
        aten.slice_scatter.default,
        aten.select_scatter.default,
        aten.diagonal_scatter.default,
        aten.as_strided_scatter.default,
        aten.copy.default,
        aten.empty_strided.default,
        aten.new_empty_strided.default,
        aten._fft_c2c.default,
        aten._fft_c2r.default,
        aten._fft_r2c.default,
        aten.signbit.default,
        aten.isposinf.default,
        aten.isneginf.default,
        aten.triangular_solve.default,
        aten.bitwise_left_shift.Tensor,
        aten.bitwise_right_shift.Tensor,
        aten.gcd.default,
    )
)
"""Operators whose results lie in torch_npu as torch describes them."""

_OF_INTEGERS_LIKE_OPERAND: Final = frozenset((aten.isinf.default, aten.round.default, aten.trunc.default))
"""Operators that have nothing to compute for integers, and copy, or fill, what lies like the operand."""

_WRITTEN_WITH_OTHERS: Final = frozenset(
    (
        aten.isinf.default,
        aten.ldexp.Tensor,
        aten._native_batch_norm_legit.default,
        aten._native_batch_norm_legit.no_stats,
        aten._native_batch_norm_legit_functional.default,
        aten._native_batch_norm_legit_no_training.default,
        aten._batch_norm_with_update.default,
        aten._batch_norm_with_update_functional.default,
        aten._unsafe_masked_index_put_accumulate.default,
        aten.huber_loss_backward.default,
        aten.mish_backward.default,
        aten.nonzero_static.default,
        aten.pixel_unshuffle.default,
        aten.rrelu_with_noise_backward.default,
        aten.silu_backward.default,
    )
)
"""Operators without a kernel, which are written with others that have dense results."""

_VIEWS_OF_DENSE: Final = frozenset((aten.rot90.default,))
"""Views of what torch_npu lays out densely inside the operator."""

_WITH_KERNELS_OF_TORCH_NPU: Final = frozenset(("aten", "prims"))
"""Packages of operators whose kernels torch_npu writes; those of others say how their results lie."""

_DENSE_OF_TORCH_NPU: Final = frozenset(
    f"npu::{name}"
    for name in (
        "fast_gelu",
        "kl_div_backward",
        "l1_loss_backward",
        "npu_add_rms_norm",
        "npu_add_rms_norm_cast",
        "npu_dynamic_quant",
        "npu_fast_gelu",
        "npu_fast_gelu_backward",
        "npu_gelu",
        "npu_gelu_backward",
        "npu_group_norm_silu",
        "npu_incre_flash_attention",
        "npu_interleave_rope",
        "npu_linear_backward",
        "npu_lstm_cell_backward",
        "npu_prompt_flash_attention",
        "npu_quantize",
        "npu_rms_norm",
        "npu_rms_norm_backward",
        "npu_rotary_mul_backward",
        "npu_scatter_pa_kv_cache_functional",
        "npu_swiglu_backward",
        "npu_top_k_top_p",
        "repeat_interleave_backward_int",
    )
)
"""Of its own: their fake kernels state results that lie like an operand.  A run of each with turned operands has shown
so, and that the others state what they give."""


def lies_like_operand_on_npu(target: Any) -> bool:
    """Whether the results of an operator lie in torch_npu as torch describes them."""
    return target in _LIKE_OPERAND or (_torch_npu_is_there() and _has_no_kernel(target))


def is_dense_on_npu(target: Any) -> bool:
    """Whether a kernel of torch_npu makes the results of an operator, and lays them out densely."""
    if not isinstance(target, torch._ops.OpOverload):
        return False
    if target.namespace not in _WITH_KERNELS_OF_TORCH_NPU:
        return target._schema.name in _DENSE_OF_TORCH_NPU
    return target not in _VIEWS_OF_DENSE and not lies_like_operand_on_npu(target)


def copies_integers_on_npu(target: Any, operand: Any) -> bool:
    """Whether an operator gives for this operand what lies like it, and for fractions what is dense."""
    is_of_integers = isinstance(operand, torch.Tensor) and not (
        operand.is_floating_point() or operand.is_complex()
    )
    return is_of_integers and target in _OF_INTEGERS_LIKE_OPERAND


def _torch_npu_is_there() -> bool:
    """Whether kernels of torch_npu are registered, so that it can be asked what else is."""
    return torch._C._dispatch_has_kernel_for_dispatch_key("aten::add.out", "PrivateUse1")


@cache
def _has_no_kernel(target: Any) -> bool:
    """Whether torch_npu leaves an operator to the CPU, or to what is written for all devices."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace not in _WITH_KERNELS_OF_TORCH_NPU:
        return False
    if target in _WRITTEN_WITH_OTHERS:
        return False
    form = out_form_of(target, "npu")
    kernels: list[Any] = [target] if form is None else [target, form.out]
    return not any(
        torch._C._dispatch_has_kernel_for_dispatch_key(one.name(), "PrivateUse1") for one in kernels
    )


def lay_out_as_on_npu(gm: fx.GraphModule) -> int:
    """Makes the example values of a graph lie as torch_npu lays them out; says how many lay otherwise.

    Later questions about the layout of a value then get the answer that holds in eager, in captures and for callers.
    """
    layouts = DeviceLayouts("npu")
    for node in gm.graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond):
        _lay_out_branches(node, layouts)
    found = [(node, layouts.of(node)) for node in gm.graph.nodes]
    moved = [(node, value) for node, value in found if value is not None and value is not node.meta["val"]]
    for node, value in moved:
        node.meta["val"] = value
    return len(moved)


def _lay_out_branches(node: fx.Node, layouts: DeviceLayouts) -> None:
    """Says in the graphs of both branches how their inputs and values lie."""
    given: Any = node.args[3]
    for branch in bodies_of(node):
        for inside, operand in zip(branch.graph.find_nodes(op="placeholder"), given, strict=True):
            if isinstance(operand, fx.Node) and (value := layouts.of(operand)) is not None:
                inside.meta["val"] = value
        lay_out_as_on_npu(branch)


class DeviceLayouts:
    """Example values of nodes as torch_npu lays them out: each computed when it is asked for.

    A value that lies as it was traced, and whatever is a view of it, is the traced one.
    """

    def __init__(self, device: str = "npu") -> None:
        self._device = device
        self._known: dict[fx.Node, torch.Tensor | None] = {}

    def of(self, node: fx.Node) -> torch.Tensor | None:
        """The value; None where torch_npu's layout does not admit the views the graph takes."""
        if node not in self._known:
            traced = node.meta.get("val")
            with computing_examples(mode_of(traced)):
                try:
                    self._known[node] = self._value(node, traced)
                except (RuntimeError, TypeError, ValueError, IndexError):
                    self._known[node] = None
        return self._known[node]

    def _value(self, node: fx.Node, traced: Any) -> torch.Tensor | None:
        if not isinstance(traced, torch.Tensor):
            return None
        if node.op != "call_function" or traced.device.type != self._device or not _is_strided(traced):
            return traced
        link = link_of(node)
        if link is not None:
            return traced if self._stays(link.base) else self._view(node, link)
        call: Any = node.args[0] if node.target is operator.getitem else node
        if call.target in _VIEWS_OF_DENSE:
            return self._result(node, call)
        if lies_like_operand_on_npu(call.target) or copies_integers_on_npu(call.target, _first(call)):
            return traced if all(map(self._stays, call.all_input_nodes)) else self._result(node, call)
        if call.target is torch.ops.higher_order.cond and call is not node:
            return self._of_branch(call, node.args[1])
        if not is_dense_on_npu(call.target):
            return traced
        dense = torch._prims_common.make_contiguous_strides_for(traced.shape)
        if same_extents(traced.stride(), dense):
            return traced
        return torch.empty(traced.shape, dtype=traced.dtype, device=traced.device)

    def _of_branch(self, node: fx.Node, index: Any) -> torch.Tensor | None:
        """How a result of either branch lies: both make it alike."""
        first, *_ = bodies_of(node)
        results: Any = first.graph.output_node().args[0]
        return DeviceLayouts(self._device).of(results[index])

    def _stays(self, node: fx.Node) -> bool:
        """Whether a value, or what several are views of, lies as it was traced."""
        value = node.meta.get("val")
        if isinstance(value, (list, tuple)):
            return all(map(self._stays, node.all_input_nodes))
        return not isinstance(value, torch.Tensor) or self.of(node) is value

    def _view(self, node: fx.Node, link: Link) -> torch.Tensor | None:
        if link.kind == "same":
            return self.of(link.base)
        return self._result(node, link.base if link.kind == "item" else node)

    def _result(self, node: fx.Node, call: fx.Node) -> torch.Tensor | None:
        """What a call gives, or the one of its results that the node takes."""
        made: Any = self._computed(call)
        if made is not None and node is not call:
            made = made[node.args[1]]
        return made if isinstance(made, torch.Tensor) else None

    def _computed(self, node: fx.Node) -> Any:
        """What an operator gives for its operands as torch_npu lays them out; None where that is not known."""
        tensors = (one for one in node.all_input_nodes if isinstance(one.meta.get("val"), torch.Tensor))
        if any(self.of(one) is None for one in tensors):
            return None
        given: Any = fx.node.map_arg((node.args, node.kwargs), self._operand)
        args, kwargs = given
        if node.target in _VIEWS_OF_DENSE:
            args = (args[0].contiguous(), *args[1:])
        target: Any = node.target
        return as_its_base(target, target(*args, **kwargs), args[0])

    def _operand(self, node: fx.Node) -> Any:
        value = node.meta["val"]
        return self.of(node) if isinstance(value, torch.Tensor) else value


def _first(call: fx.Node) -> Any:
    """The example value of the first operand."""
    first = call.args[0] if call.args else None
    return first.meta.get("val") if isinstance(first, fx.Node) else None


def _is_strided(value: torch.Tensor) -> bool:
    return value.layout is torch.strided and not value.is_nested and not value.is_quantized
