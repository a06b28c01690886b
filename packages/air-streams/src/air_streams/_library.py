"""The stream operators: how streams, events and lifetimes are written in an FX graph.

    with npu_stream_switch("1"):          stream_enter("1", 0)
        npu_tagged_event_wait(event)  ->  event_wait("66")
        y = torch.mm(a, b)                mm = aten.mm(a, b)
                                          stream_exit("1")

The operators take strings and tensors, return nothing (`record` returns a marker) and count as side effects, so
Dynamo, functionalization, dead-code elimination and AOTAutograd keep them, in order. They live in a namespace
of their own: TorchAir's `air` and `npugraph_ex` may be loaded in the same process.

`site` makes two equal calls different for common-subexpression elimination; `normalize` numbers the sites.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx.node import has_side_effect

from air_streams import _eager

NAMESPACE: Final = "air_streams"

#: Each has its kernel in `_eager`, under its own name.
_SCHEMAS: Final = {
    "stream_enter": "(str tag, int priority=0, int site=0) -> ()",
    "stream_exit": "(str tag, int site=0) -> ()",
    "event_record": "(str event, int site=0) -> ()",
    "event_wait": "(str event, int site=0) -> ()",
    "record_stream": "(Tensor input, str tag, int site=0) -> ()",
    "record": "(int site=0) -> Tensor",
    "wait": "(Tensor[] dependencies, int site=0) -> ()",
    "core_limit_enter": "(int aicore, int vectorcore, str tag='', int site=0) -> ()",
    "core_limit_exit": "(int site=0) -> ()",
    "attributes_enter": "(str[] names, str[] values, int site=0) -> ()",
    "attributes_exit": "(int site=0) -> ()",
}

_TENSORS: Final = ("input", "dependencies")
"""Arguments that are tensors."""


def _no_value(*args: object, **kwargs: object) -> None:
    return None


def _marker_value(site: int = 0) -> torch.Tensor:
    return torch.empty(0)


def _under_vmap(op: OpOverload) -> Callable[..., tuple[None, None]]:
    """The rule for tensors with a dimension that `torch.vmap` hides: the operator means their whole memory."""

    def rule(info: Any, in_dims: Any, *args: Any, **kwargs: Any) -> tuple[None, None]:
        op(*args, **kwargs)
        return None, None

    return rule


def _declare() -> torch.library.Library:
    library = torch.library.Library(NAMESPACE, "DEF")
    for name, schema in _SCHEMAS.items():
        library.define(name + schema)
        library.impl(name, getattr(_eager, name), "CompositeExplicitAutograd")
        torch.library.register_fake(
            f"{NAMESPACE}::{name}", _marker_value if name == "record" else _no_value, lib=library
        )
        op = getattr(getattr(torch.ops, NAMESPACE), name).default
        has_side_effect(op)
        if any(argument.name in _TENSORS for argument in op._schema.arguments):
            torch.library.register_vmap(f"{NAMESPACE}::{name}", _under_vmap(op), lib=library)
    return library


# Deregistered when collected: the module keeps it.
_library: Final = _declare()

_ops = torch.ops.air_streams
STREAM_ENTER: Final = _ops.stream_enter.default
STREAM_EXIT: Final = _ops.stream_exit.default
EVENT_RECORD: Final = _ops.event_record.default
EVENT_WAIT: Final = _ops.event_wait.default
RECORD_STREAM: Final = _ops.record_stream.default
RECORD: Final = _ops.record.default
WAIT: Final = _ops.wait.default
CORE_LIMIT_ENTER: Final = _ops.core_limit_enter.default
CORE_LIMIT_EXIT: Final = _ops.core_limit_exit.default
ATTRIBUTES_ENTER: Final = _ops.attributes_enter.default
ATTRIBUTES_EXIT: Final = _ops.attributes_exit.default

STREAM_OPS: Final = frozenset(getattr(_ops, name).default for name in _SCHEMAS)
