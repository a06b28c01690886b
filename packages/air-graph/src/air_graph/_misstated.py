"""Mends the strides of example values that torch's fake kernels state wrongly.

    y = batch_norm(x.transpose(0, 1))     # the kernel of a CPU lays the result out densely, the fake kernel like `x`

A result that is allocated by its example value would then have other strides than in eager, and a `reshape` of it that
was traced as a view may have to copy. The operators are those that a sweep over torch's table of operators has found.
Each is run on small real tensors where its operands are not contiguous.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch
from torch import SymInt, Tensor
from torch._guards import detect_fake_mode
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from air_graph._copied_views import RESHAPES, copy_before, has_view
from air_graph._examples import computed_again, example_arguments
from air_graph._hints import bytes_of, hint_of
from air_graph._region import same_extents
from air_graph._uses import bodies_of, operands_of
from air_graph.pieces import depends_on_data

#: Names of operators, without overload, whose fake kernels state other strides than their kernels for CPUs give.
MISSTATED: Final = frozenset(
    f"aten::{name}"
    for name in (
        "_batch_norm_with_update",
        "_batch_norm_with_update_functional",
        "_fft_c2c",
        "_fft_r2c",
        "_log_softmax_backward_data",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_functional",
        "_native_batch_norm_legit_no_training",
        "_standard_gamma",
        "_unsafe_index",
        "angle",
        "as_strided_scatter",
        "batch_norm_backward",
        "binary_cross_entropy",
        "binary_cross_entropy_backward",
        "channel_shuffle",
        "copysign",
        "div",
        "elu_backward",
        "floor_divide",
        "hardswish_backward",
        "hardtanh_backward",
        "heaviside",
        "huber_loss_backward",
        "index",
        "index_fill",
        "ldexp",
        "log_sigmoid_forward",
        "logaddexp",
        "logaddexp2",
        "logical_and",
        "logical_or",
        "logical_xor",
        "logit_backward",
        "max_unpool2d",
        "mse_loss_backward",
        "native_batch_norm",
        "native_batch_norm_backward",
        "native_channel_shuffle",
        "native_dropout_backward",
        "native_layer_norm_backward",
        "nll_loss2d_forward",
        "normal",
        "poisson",
        "pow",
        "reflection_pad2d_backward",
        "replication_pad2d_backward",
        "roll",
        "smooth_l1_loss_backward",
        "softplus_backward",
        "special_xlog1py",
        "xlogy",
    )
)
_GIVES_RESULTS_OF_BODY: Final = (torch.ops.higher_order.cond, torch.ops.higher_order.invoke_subgraph)
_MOST_BYTES: Final = 1 << 28
"""Larger operands are not made for a question about strides; the fake kernel is believed."""


def mend_layouts(gm: GraphModule) -> bool:
    """Gives such values the strides that the kernel gives, and computes again what follows from them.

    Also in the graphs that higher-order operators are given.
    """
    return _mend(gm, set())


def _mend(gm: GraphModule, mended: set[Node]) -> bool:
    """Whether values of a graph lie otherwise now, where those of `mended` do so already."""
    already, in_bodies = len(mended), False
    for node in list(gm.graph.nodes):
        if _is_suspect(node):
            laid = _as_the_kernel_lays(node)
            if _strides(laid) != _strides(node.meta["val"]):
                node.meta["val"] = laid
                mended.add(node)
        elif isinstance(node.target, HigherOrderOperator):
            in_bodies |= _mend_bodies(node, mended)
        elif not mended.isdisjoint(node.all_input_nodes) and _can_be_asked(node):
            _follow(node)
            mended.add(node)
    if len(mended) > already:
        gm.recompile()
    return in_bodies or len(mended) > already


def _follow(node: Node) -> None:
    """Computes a value again whose operands lie otherwise."""
    mode = detect_fake_mode([source.meta.get("val") for source in node.all_input_nodes])
    with contextlib.nullcontext() if mode is None else mode:
        if node.target in RESHAPES and not has_view(node, node.all_input_nodes[0].meta["val"]):
            copy_before(node)
        node.meta["val"] = computed_again(node)


def _mend_bodies(node: Node, mended: set[Node]) -> bool:
    """Mends the graphs that an operator is given, and what it gives; says whether anything in them lies otherwise."""
    bodies, changed = bodies_of(node), False
    operands = operands_of(node)
    for body in bodies:
        inputs = body.graph.find_nodes(op="placeholder")
        moved = set()
        for inner, outer in zip(reversed(inputs), reversed(operands), strict=False):
            if outer in mended and _is_one_size(inner.meta.get("val"), outer.meta["val"]):
                inner.meta["val"] = outer.meta["val"]
                moved.add(inner)
        changed |= _mend(body, moved)
    if changed and node.target in _GIVES_RESULTS_OF_BODY and _takes_results(node, bodies):
        mended.add(node)
    return changed


def _takes_results(node: Node, bodies: Sequence[GraphModule]) -> bool:
    """Lays out the results of an operator as its graphs give them; says whether they lie otherwise now."""
    before, results = node.meta["val"], [_results(body) for body in bodies]
    if any(_strides(one) != _strides(results[0]) or len(one) != len(before) for one in results):
        return False  # which branch is taken decides
    node.meta["val"] = tuple(map(_as, before, results[0]))
    return _strides(node.meta["val"]) != _strides(before)


def _is_one_size(inner: Any, outer: Any) -> bool:
    """Whether a graph is given the value itself, and not one row after the other."""
    both = isinstance(inner, Tensor) and isinstance(outer, Tensor)
    return both and same_extents(inner.shape, outer.shape)


def _results(body: GraphModule) -> list[Any]:
    given: Any = body.graph.output_node().args[0]
    return [one.meta.get("val") if isinstance(one, Node) else one for one in given]


def _as(value: Any, laid: Any) -> Any:
    """A value with its axes in the order of those of another one."""
    if not isinstance(value, Tensor) or not isinstance(laid, Tensor):
        return value
    steps = [hint_of(step) or 0 for step in laid.stride()]
    return _laid(value, tuple(sorted(range(laid.dim()), key=lambda axis: -steps[axis])))


def _is_suspect(node: Node) -> bool:
    if not isinstance(node.target, OpOverload) or node.target._schema.name not in MISSTATED:
        return False
    if not isinstance(node.meta.get("val"), (Tensor, tuple, list)):
        return False
    given = list(_tensors(tuple(n.meta.get("val") for n in node.all_input_nodes)))
    if not given or any(x.device.type != "cpu" for x in given) or depends_on_data(node):
        return False
    return not all(x.is_contiguous() for x in given) and sum(map(bytes_of, given)) < _MOST_BYTES


def _can_be_asked(node: Node) -> bool:
    """Whether the example value follows from those of the operands alone."""
    return (
        isinstance(node.target, OpOverload) and not depends_on_data(node)
    ) or node.target is operator.getitem


def _as_the_kernel_lays(node: Node) -> Any:
    """The example value with the axes of each tensor in the order in which the kernel lays them out.

    A kernel that refuses zeros cannot be asked. One that draws takes nothing from the caller's generator.
    """
    target: Any = node.target
    with unset_fake_temporarily(), torch.no_grad(), torch.random.fork_rng(devices=()):
        args, kwargs = tree_map(_number, tree_map_only(Tensor, _real, example_arguments(node)))
        try:
            orders = iter([_order(leaf) for leaf in tree_leaves(target(*args, **kwargs))])
        except (RuntimeError, ValueError, IndexError):
            return node.meta["val"]
    return tree_map(lambda x: _laid(x, next(orders)), node.meta["val"])


def _real(fake: Tensor) -> Tensor:
    """Zeros that lie as a fake value does."""
    sizes, strides = ([hint_of(n) or 0 for n in of] for of in (fake.shape, fake.stride()))
    return torch.empty_strided(sizes, strides, dtype=fake.dtype).zero_()


def _order(real: Any) -> tuple[int, ...] | None:
    """The axes of a tensor from the outermost to the innermost; None where its elements do not lie densely."""
    if not isinstance(real, Tensor):
        return None
    strides = real.stride()
    order = sorted(range(real.dim()), key=lambda axis: -strides[axis])
    return tuple(order) if real.permute(order).is_contiguous() else None


def _laid(fake: Any, order: tuple[int, ...] | None) -> Any:
    """A value with its axes in this order; the value itself where they are."""
    if not isinstance(fake, Tensor) or order is None:
        return fake
    back = [order.index(axis) for axis in range(len(order))]
    laid = fake.new_empty([fake.shape[axis] for axis in order]).permute(back)
    return fake if _strides(laid) == _strides(fake) else laid


def _number(value: Any) -> Any:
    return hint_of(value) if isinstance(value, SymInt) else value


def _strides(value: Any) -> tuple[Any, ...]:
    if isinstance(value, Tensor):
        return tuple(hint_of(n) for n in value.stride())
    return tuple(_strides(x) for x in _tensors(value))


def _tensors(value: Any) -> Iterator[Tensor]:
    return (x for x in tree_leaves(value) if isinstance(x, Tensor))
