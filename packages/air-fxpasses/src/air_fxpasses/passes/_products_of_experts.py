"""Gives products of groups of rows to the one operator of an NPU that reads the groups on the device.

    y = transformers.grouped_mm_fallback(x, w, ends)     ->     y = npu_grouped_matmul([x], [w], group_list=ends)[0]
    y = aten._grouped_mm(x, w, ends)

Both reach an NPU as code that waits for the numbers of rows on the host, which no capture can hold. Rows after the
last group are zeros where the operator promises that; the NPU's leaves them as they are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from air_fxpasses._facts import Facts
from air_fxpasses._pass import Pass, PassResult, tried
from air_fxpasses._refusal import Refusal
from air_graph import named_arguments

aten = torch.ops.aten

_TYPES: Final = (torch.float16, torch.bfloat16, torch.float32)
_SPLIT_ROWS: Final = {"split_item": 3, "group_type": 0, "group_list_type": 0}
"""One result, for groups of rows, of which the list has the ends."""


@dataclass(frozen=True)
class _Product:
    """Rows of `x`, up to each of `ends`, times the matrix of their group."""

    x: Node
    weight: Node
    ends: Node
    zeros_after: bool
    """Whether rows after the last group are zeros, and not whatever was there."""


def _of_transformers(arguments: Mapping[str, Any]) -> _Product | str:
    return _Product(arguments["input"], arguments["weight"], arguments["offs"], zeros_after=True)


def _of_torch(arguments: Mapping[str, Any]) -> _Product | str:
    ends = arguments.get("offs")
    if ends is None:
        return "it has no groups"
    if arguments.get("bias") is not None or arguments.get("out_dtype") is not None:
        return "a bias for each group, or another type of result"
    return _Product(arguments["self"], arguments["mat2"], ends, zeros_after=False)


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], _Product | str]]] = {
    "transformers::grouped_mm_fallback": _of_transformers,
    "aten::_grouped_mm": _of_torch,
}


@dataclass(frozen=True)
class ProductsOfExperts(Pass):
    """Replaces them in graphs of an NPU whose operator library is loaded."""

    name: ClassVar[str] = "products_of_experts"
    rtol: ClassVar[float] = 1.6e-2

    device_type: str = "npu"

    def __call__(self, gm: GraphModule, facts: Facts) -> PassResult:
        grouped = _grouped_matmul()
        if grouped is None:
            return PassResult(False)

        def replaced(node: Node) -> bool | Refusal | None:
            read = _reader(node)
            if read is None or facts.value(node).device.type != self.device_type:
                return None
            product = read(named_arguments(node, node.target))  # type: ignore[arg-type]  # an OpOverload has a reader
            if isinstance(product, str):
                return Refusal.of(product, node)
            if (why := _obstacle(facts, product)) is not None:
                return Refusal.of(why, node)
            _replace(facts, node, product, grouped)
            return True

        return tried(gm.graph.nodes, replaced, "products of experts read their groups on the device")


def has_products_of_experts(gm: GraphModule) -> bool:
    """Whether there is anything for the pass to look at; most graphs have nothing, and need no facts for it."""
    return any(_reader(node) is not None for node in gm.graph.nodes)


def _grouped_matmul() -> Any:
    """The overload of the NPU's operator that takes the groups as a tensor; None without torch_npu."""
    packet = getattr(torch.ops.npu, "npu_grouped_matmul", None)
    return getattr(packet, "default", None)


def _reader(node: Node) -> Callable[[Mapping[str, Any]], _Product | str] | None:
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return None
    return _READERS.get(node.target._schema.name)


def _obstacle(facts: Facts, product: _Product) -> str | None:
    x, weight, ends = (facts.value(node) for node in (product.x, product.weight, product.ends))
    if x.dim() != 2 or weight.dim() != 3:
        return f"groups of something else than rows: operands of {x.dim()} and {weight.dim()} dimensions"
    if x.dtype != weight.dtype or x.dtype not in _TYPES:
        return f"a product of {x.dtype} and {weight.dtype}"
    if ends.device != x.device:
        return "the ends of its groups are not on the device"
    return None


def _replace(facts: Facts, node: Node, product: _Product, grouped: Any) -> None:
    """The new nodes before the old one, which goes."""

    def insert(target: Any, *args: Any, **kwargs: Any) -> Node:
        return facts.insert_before(node, target, args, kwargs)

    ends = product.ends
    wide: Tensor = facts.value(ends)
    if wide.dtype != torch.int64:
        ends = insert(aten._to_copy.default, ends, dtype=torch.int64)
    products = insert(grouped, [product.x], [product.weight], group_list=ends, **_SPLIT_ROWS)
    result = insert(operator.getitem, products, 0)
    if product.zeros_after:
        value = facts.value(node)
        rows = facts.value(product.x).shape[0]
        count = insert(aten.sym_size.int, product.x, 0) if isinstance(rows, torch.SymInt) else rows
        places = insert(aten.arange.default, count, dtype=torch.int64, device=value.device)
        last = insert(aten.select.int, ends, 0, -1)
        beyond = insert(aten.unsqueeze.default, insert(aten.ge.Tensor, places, last), -1)
        result = insert(aten.masked_fill.Scalar, result, beyond, 0)
    facts.replace(node, result)
