"""Decides once, per graph, how each input reaches a captured graph.

    static    used where it is; its address is checked       parameters, buffers, marked static
    mutated   used where it is; its address is checked       the graph writes it (KV cache)
    copied    copied into memory of its own before a replay  every other tensor
    bound     like copied, but used where it is              clone_input=False, or found to stay put
    lent      like bound, and not kept alive                 memory that a forward half lends its backward half
    carried   copied in and copied back                      a mutated input that keeps moving
    host      a CPU tensor read on the host                  a host parameter, patched into the replay
    returned  a CPU tensor that nothing but the caller gets  each call gives back its own
    token     nothing: AOTAutograd passes None               orders operators with effects
    value     a number                                       part of the key
    object    neither tensor nor number (`_objects`)         part of the key where an operator reads it

What a graph writes is asked of `air_graph`: through any chain of views, list arguments element by element, and also
what an operator writes without saying so.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch._ops import OpOverload
from torch._subclasses import FakeTensor
from torch.fx import GraphModule, Node

from air_aclgraph._objects import is_object, is_read, real_type
from air_aclgraph.errors import InputRefused
from air_graph import is_on_host, named_arguments, written_inputs


class Kind(enum.Enum):
    """How an input reaches the captured graph."""

    STATIC = "static"
    MUTATED = "mutated"
    COPIED = "copied"
    BOUND = "bound"
    LENT = "lent"
    CARRIED = "carried"
    HOST = "host"
    RETURNED = "returned"
    TOKEN = "token"
    VALUE = "value"
    OBJECT = "object"


@dataclass(frozen=True)
class Slot:
    """One input of the graph."""

    index: int
    name: str
    kind: Kind
    node: Node
    because: str
    whole: bool = False
    """Whether the graph may address its whole storage, from the start of that."""
    is_awaited: bool = False
    """Whether it lies on the host, and a call returns when its copy to the device has taken what it needs."""

    @property
    def is_written(self) -> bool:
        """Whether the graph writes to it."""
        return self.kind in (Kind.MUTATED, Kind.CARRIED)


_NUMBERS: Final = (int, float, bool, str, type(None), SymInt, SymFloat, SymBool)
#: Operators that only copy a tensor, so that one of the host may be staged on the device for them.
STAGING: Final = (
    torch.ops.aten._to_copy.default,
    torch.ops.aten.copy_.default,
    torch.ops.aten.copy.default,
)


def classify(
    gm: GraphModule,
    example_inputs: Sequence[object],
    static: Iterable[int],
    device: torch.device,
    *,
    clone_input: bool = True,
) -> tuple[Slot, ...]:
    """The slots of a graph, in the order of its placeholders."""
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    if len(placeholders) != len(example_inputs):
        raise InputRefused(
            f"the graph has {len(placeholders)} inputs and {len(example_inputs)} example inputs were given",
            advice="pass one example per placeholder, in their order",
        )
    written = written_inputs(gm)
    fixed = set(static)
    slots = []
    for index, (node, example) in enumerate(zip(placeholders, example_inputs, strict=True)):
        kind, because = _kind(node, example, index in fixed, node in written, device, clone_input)
        on_host = isinstance(example, Tensor) and example.device.type == "cpu" and device.type != "cpu"
        awaited = kind is Kind.COPIED and on_host and not all(map(_goes_on, node.users))
        slots.append(Slot(index, str(node.target), kind, node, because, is_awaited=awaited))
    return tuple(slots)


def _kind(
    node: Node, example: object, fixed: bool, written: bool, device: torch.device, clone_input: bool
) -> tuple[Kind, str]:
    if isinstance(example, _NUMBERS):
        return Kind.VALUE, "not a tensor"
    if is_object(example):
        return Kind.OBJECT, f"a {real_type(example).__name__}, {_object_use(node)}"
    if not isinstance(example, Tensor):
        raise InputRefused(
            f"input {node.target!r} is a {type(example).__name__}: an input is a tensor, a number or an object "
            "that torch knows as opaque",
            advice="unpack it before the compiled function",
            input=str(node.target),
        )
    if node.users and all(_orders_effects(user, node) for user in node.users):
        return Kind.TOKEN, "it orders operators with effects and has no value"
    refuse_layout(str(node.target), example)
    if example.device.type == "cpu" and device.type != "cpu":
        return _host_kind(node, example, written)
    if written:
        return Kind.MUTATED, "the graph writes it"
    if fixed or isinstance(example, torch.nn.Parameter) or _is_marked(example):
        return Kind.STATIC, "a parameter, a buffer or marked static"
    if not clone_input:
        return Kind.BOUND, "clone_input is off"
    return Kind.COPIED, "an ordinary input"


def _object_use(node: Node) -> str:
    return "which operators read: part of the key" if is_read(node) else "handed on as it is"


def _orders_effects(user: Node, token: Node) -> bool:
    return getattr(user.target, "__name__", "") == "with_effects" and user.args[0] is token


def _host_kind(node: Node, example: Tensor, written: bool) -> tuple[Kind, str]:
    name = str(node.target)
    if written:
        raise InputRefused(
            f"input {name!r} is a CPU tensor that the captured graph writes",
            advice="keep it on the device, or update it outside the compiled function",
            input=name,
        )
    if node.users and all(user.op == "output" for user in node.users):
        return Kind.RETURNED, "a CPU tensor that no operator reads"
    if all(user.target in STAGING and not is_on_host(user) for user in node.users):
        return Kind.COPIED, "a CPU tensor that the graph copies to the device: staged on the device"
    if example.dim() == 0:
        return Kind.VALUE, "a CPU number: kernels read it on the host"
    return Kind.HOST, "read on the host"


def _goes_on(user: Node) -> bool:
    """Whether the program asked for this copy with `non_blocking`."""
    if not isinstance(user.target, OpOverload):
        return False
    return bool(named_arguments(user, user.target).get("non_blocking", False))


def _is_marked(example: Tensor) -> bool:
    return getattr(example, "_dynamo_static_input_type", None) is not None


def refuse_layout(name: str, value: Tensor) -> None:
    """Raises for a tensor that is no plain strided memory."""
    if value.layout != torch.strided or value.is_quantized or value.is_nested:
        raise InputRefused(
            f"input {name!r} has layout {value.layout}: only dense strided tensors have an address to capture",
            advice="convert it before the compiled function (to_dense, dequantize)",
            input=name,
        )


def refuse_inputs(slots: Iterable[Slot], args: Sequence[object]) -> None:
    """Raises for the first argument of a call that cannot be captured."""
    for slot, value in zip(slots, args, strict=True):
        if isinstance(value, Tensor):
            _refuse_subclass(slot.name, value)
            refuse_layout(slot.name, value)
            if slot.is_written:
                _refuse_inference(slot.name, value)


def _refuse_subclass(name: str, value: Tensor) -> None:
    """Raises for a tensor subclass whose memory is not its own; one that only has another class is a tensor."""
    if type(value).__torch_dispatch__ is not Tensor.__torch_dispatch__:
        raise InputRefused(
            f"input {name!r} is a {type(value).__name__}, a tensor that stands for others",
            advice="compile through torch.compile, which unwraps subclasses, or pass the tensors inside it",
            input=name,
        )


def is_on(value: object, device: torch.device) -> bool:
    """Whether this is a tensor on a device of this type."""
    return isinstance(value, Tensor) and value.device.type == device.type


def why_without_memory(value: object) -> str | None:
    """Why nothing can be copied out of a tensor; None where something can."""
    if not isinstance(value, Tensor):
        return None
    if isinstance(value, FakeTensor):
        return "a fake tensor"
    if value.is_meta:
        return "a tensor on 'meta'"
    return None if value.layout is torch.strided else f"a tensor with layout {value.layout}"


def _refuse_inference(name: str, value: Tensor) -> None:
    """Raises for a tensor of inference mode that the graph writes outside of it, which eager refuses as well."""
    if value.is_inference() and not torch.is_inference_mode_enabled():
        raise InputRefused(
            f"input {name!r} was made in inference mode, and the graph writes it outside of inference mode",
            advice="call inside torch.inference_mode(), or pass a clone that was made outside",
            input=name,
        )
