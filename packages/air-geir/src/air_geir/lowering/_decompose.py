"""Torch's own decompositions, applied where an operator has no converter.

An operator is traced once per signature (types, shapes, other arguments) into a small graph of simpler operators,
which is then lowered in its place; a model with thirty equal layers traces each kind of call once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import fx
from torch._decomp import decomposition_table
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from air_fxpasses.npu_cards import find
from air_geir.lowering._attention_gradients import ATTENTION_GRADIENTS
from air_geir.lowering._attention_layers import ATTENTION_LAYERS
from air_geir.lowering._foreach import foreach_decomposition
from air_geir.lowering._gamma import GAMMA
from air_geir.lowering._halves import rounded_once
from air_geir.lowering._layer_gradients import LAYER_GRADIENTS
from air_geir.lowering._matmul_gradients import MATMUL_GRADIENTS
from air_geir.lowering._pool_gradients import POOL_GRADIENTS, UNEVEN_POOLS
from air_geir.lowering._recurrent import RECURRENT
from air_geir.lowering._sampling_gradients import SAMPLING_GRADIENTS
from air_geir.lowering._weight_norm import NORM_GRADIENTS, weight_norm
from air_graph import effects_of, multilabel_margin_loss, uses_of, without_writes

Overload: TypeAlias = torch._ops.OpOverload
Table: TypeAlias = Mapping[Overload, Callable[..., Any]]

_CORRECTED: Mapping[Any, Callable[..., Any]] = {
    **UNEVEN_POOLS,
    # torch's own takes a view, and fails for layouts that have none
    torch.ops.aten.view_copy.default: lambda self, size: self.reshape(size).clone(),
    torch.ops.aten._weight_norm_interface.default: weight_norm,
    torch.ops.aten.multilabel_margin_loss_forward.default: multilabel_margin_loss,
}
"""Used instead of torch's own."""
_OWN: Mapping[object, Callable[..., Any]] = {
    **ATTENTION_LAYERS, **ATTENTION_GRADIENTS, **GAMMA, **LAYER_GRADIENTS, **MATMUL_GRADIENTS, **NORM_GRADIENTS,
    **POOL_GRADIENTS, **RECURRENT, **SAMPLING_GRADIENTS,
}  # fmt: skip
"""Of operators that torch's tables leave whole."""


class Expansions:
    """The expansions of one lowering, with those of the user in front of torch's."""

    def __init__(self, custom: Table | None = None) -> None:
        self._custom = dict(custom or {})
        self._traced: dict[object, fx.GraphModule] = {}

    def overridden(self, op: object) -> bool:
        """True when the user gave a decomposition: it goes before a converter."""
        return op in self._custom

    def has(self, op: object) -> bool:
        """True when the operator can be written with simpler ones."""
        return isinstance(op, Overload) and _decomposition(op, self._custom) is not None

    def expand(self, op: Overload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> fx.GraphModule | None:
        """The operator as a graph over its tensors and symbolic sizes, in the order they occur in the arguments."""
        function = _decomposition(op, self._custom)
        if function is None:
            return None
        leaves, spec = pytree.tree_flatten((_plain(tuple(args)), _plain(dict(kwargs))))
        key = (op, spec, tuple(_signature(leaf) for leaf in leaves), _repeats(leaves))
        traced = self._traced.get(key)
        if traced is None:
            traced = _trace(rounded_once(op, function, leaves), leaves, spec)
            if traced is None or any(n.target is op for n in traced.graph.nodes):
                return None
            if not _draws_sizes(traced):
                self._traced[key] = traced
        return traced


def is_dynamic_leaf(leaf: object) -> bool:
    """True for the leaves that become inputs of an expansion."""
    return isinstance(leaf, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool))


def _decomposition(op: Overload, custom: Table) -> Callable[..., Any] | None:
    found = (
        custom.get(op)
        or _CORRECTED.get(op)
        or decomposition_table.get(op)
        or _OWN.get(op)
        or foreach_decomposition(op)
    )
    if found is None and torch._C._dispatch_has_kernel(op.name()) and op._can_decompose():
        return op.decompose
    return found


def _plain(tree: Any) -> Any:
    """Ordinary lists for the immutable ones of a node: a decomposition may edit what it is given."""
    if isinstance(tree, (list, tuple)):
        return type(tree)(map(_plain, tree)) if isinstance(tree, tuple) else [_plain(t) for t in tree]
    return {name: _plain(value) for name, value in tree.items()} if isinstance(tree, dict) else tree


class _NotHandled(Exception):
    """The decomposition does not handle these arguments."""


def _trace(
    function: Callable[..., Any], leaves: Sequence[Any], spec: pytree.TreeSpec
) -> fx.GraphModule | None:
    inputs = [leaf for leaf in leaves if is_dynamic_leaf(leaf)]

    def flat(*given: Any) -> Any:
        values = iter(given)
        filled = [next(values) if is_dynamic_leaf(leaf) else leaf for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(filled, spec)
        result = function(*args, **kwargs)
        if result is NotImplemented:
            raise _NotHandled
        return tuple(result) if isinstance(result, tuple) else result

    fake_mode = detect_fake_mode(inputs) or torch._subclasses.FakeTensorMode()
    with fake_mode, enable_python_dispatcher(), torch.no_grad():
        try:
            traced = _with_aten_copies(make_fx(flat)(*inputs))
            return make_fx(without_writes(traced))(*inputs) if writes_inside(traced) else traced
        except _NotHandled:
            return None


def _with_aten_copies(gm: fx.GraphModule) -> fx.GraphModule:
    """Copies that torch's references spell as a primitive, as the operator that functionalisation knows."""
    primitive = torch.ops.prims.copy_to.default
    found = [node for node in gm.graph.nodes if node.target is primitive]
    for node in found:
        node.target = torch.ops.aten.copy_.default
    if found:
        gm.recompile()
    return gm


def writes_inside(gm: fx.GraphModule, *, besides: Collection[fx.Node] = ()) -> bool:
    """True when an operator of the graph writes to a value that is not an input of the graph, or to a part of one.

    The nodes `besides` are not asked.

    What is passed by keyword, or in a list, is memory that was made for the result: converters return its new value.
    """
    written = (
        (node, use)
        for node in gm.graph.nodes
        if isinstance(node.target, Overload)
        and node not in besides
        and not (known := effects_of(node.target)).opaque
        and known.writes
        and not _copied_first(node.target)
        for use in uses_of(node)
        if use.writes
    )
    return any(
        isinstance(use.key, int) and node.args[use.key] is use.value and use.value.op != "placeholder"
        for node, use in written
    )


def _copied_first(overload: Overload) -> bool:
    """Whether the converter gives the operator copies of what it writes, as its card says."""
    card = find(overload._schema.name.partition("::")[2]) if overload.namespace == "npu" else None
    return card is not None and card.ir is not None and card.ir.writes == {}


def _repeats(leaves: Sequence[Any]) -> tuple[int, ...]:
    """The position of the first leaf that is the same tensor: one that is given twice is one value of the trace."""
    first: dict[int, int] = {}
    return tuple(
        first.setdefault(id(leaf), at) for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)
    )


def _signature(leaf: object) -> object:
    if isinstance(leaf, torch.Tensor):
        return (
            leaf.dtype,
            *map(_signature, leaf.shape),
            "/",
            *map(_signature, leaf.stride()),
            _signature(leaf.storage_offset()),
            leaf.device.type,
        )
    if isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return ("sym", str(leaf.node.expr))
    return (type(leaf), repr(leaf))


def _draws_sizes(traced: fx.GraphModule) -> bool:
    """Sizes that depend on data are new in every instance: such a trace cannot be shared."""
    for node in traced.graph.nodes:
        for leaf in pytree.tree_leaves(node.meta.get("val")):
            if is_dynamic_leaf(leaf) and free_unbacked_symbols(leaf):
                return True
    return False
