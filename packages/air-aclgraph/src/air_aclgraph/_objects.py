"""Inputs that are neither tensor nor number: meshes, process groups, generators, script objects, a user's own types.

The hooks that compiled autograd hands from a forward to its backward are such an object (`BackwardState`).

    handed on          the graph only returns it (DTensor): each call gives back what it was given
    read, constant     a mesh, a group, a value: another one is another key
    read, with state   any other: on a device the operator that reads it is left out of captures

A replay on a device repeats kernels and never looks at an object again, so what an operator took from one is frozen.
That is right for objects that stay as they are. On the CPU an operator is called again, with the object itself.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch._library import opaque_object
from torch._library.fake_class_registry import FakeScriptObject
from torch.fx import GraphModule, Node
from torch.fx.experimental._backward_state import BackwardState

from air_aclgraph._decisions import decision
from air_aclgraph.errors import CUT_OR_EAGER, IllegalDuringCapture
from air_graph import attribute, nearest_source_of

#: Types, by module and name, that torch registers as having state though what an operator reads of them stays.
_CONSTANT: Final = frozenset(
    {
        ("torch.distributed.device_mesh", "DeviceMesh"),
        ("torch.distributed.distributed_c10d", "ProcessGroup"),
        ("torch._higher_order_ops.invoke_leaf_function", "_LeafCallable"),
    }
)


def is_object(value: object) -> bool:
    """Whether a value is one of these objects, or what stands for one while a graph is made."""
    if isinstance(value, (torch.ScriptObject, FakeScriptObject, torch.Generator, BackwardState)):
        return True
    return opaque_object.is_opaque_type(type(value))


def real_type(value: object) -> type[Any]:
    """The type of the object, also where something stands for it."""
    return type(getattr(value, "real_obj", value) if isinstance(value, FakeScriptObject) else value)


def is_read(node: Node) -> bool:
    """Whether an operator is given the object that a node is, rather than the caller alone."""
    return any(user.op != "output" for user in node.users)


def identity(value: object) -> object:
    """What tells an object from another in a shape key: a value is what it is equal to, any other is itself.

    The number stands for the object as long as that lives, and a capture keeps what it was given.
    """
    return value if opaque_object.is_opaque_value_type(type(value)) else id(value)


def why_frozen(node: Node) -> str | None:
    """Why a capture would freeze what an operator reads: an object with state is among it; None where there is none."""
    for value in node.all_input_nodes:
        example = _example(value)
        if is_object(example) and _has_state(real_type(example)):
            return f"the host reads a {real_type(example).__name__}, whose state may be another at each call"
    return None


def refuse_frozen_state(gm: GraphModule, device: str) -> None:
    """Raises for an operator that a capture on a device would give the state that an object has just then.

    An operator that the host decides is left to the runtime, which says what it decides (`_decisions`).
    """
    for node in gm.graph.nodes:
        if node.op != "call_function" or decision(node, device) is not None:
            continue
        if (reason := why_frozen(node)) is not None:
            where, advice = (
                nearest_source_of(node),
                f"register its type with torch as a value, {CUT_OR_EAGER}",
            )
            raise IllegalDuringCapture.of(node.target, reason, where, advice)


def _example(node: Node) -> object:
    """What stands for the value of a node; an object that belongs to the module stands for itself."""
    module = node.graph.owning_module
    if node.op == "get_attr" and module is not None:
        return attribute(module, str(node.target))
    return node.meta.get("val")


def _has_state(kind: type[Any]) -> bool:
    if opaque_object.is_opaque_value_type(kind):
        return False
    return not any((base.__module__, base.__qualname__) in _CONSTANT for base in kind.__mro__)
