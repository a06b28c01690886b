"""The memory that patched operators work in.

    _X_get_max_workspace     what any values need: asked once, in the capture
    X_get_workspace          what these values need: asked again for new ones, and the memory grows

Without such memory an operator takes some of its own for each patch, and gives it back as soon as it has been patched:
the captured task would work in memory that is somebody else's by then. Operators of one kind run one after the other on
a stream, so they share it there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket

from air_aclgraph._runtime import UpdatableCall
from air_graph.page import text_of

log = logging.getLogger(__name__)

#: The argument by which an operator is given it.
NAME: Final = "workspace"
_SPARE: Final = 2  # so many times what was needed: lengths grow with each step


class Workspace:
    """Memory that grows with the values; what was given once stays as long as the capture, which may be using it."""

    def __init__(self, query: Callable[..., Tensor], needed: Tensor) -> None:
        self._query = query
        self._held = [needed]
        self._serves: Hashable = None

    @property
    def memory(self) -> Tensor:
        """The largest so far."""
        return self._held[-1]

    def serve(self, values: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
        """Memory for a call with these values."""
        told = tuple((name, _plain(value)) for name, value in values.items())
        if told != self._serves:
            needed = self._query(*args, **kwargs)
            if needed.numel() > self.memory.numel():
                self._held.append(needed.new_empty(_SPARE * needed.numel()))
            self._serves = told
        return self.memory


class Workspaces:
    """Those of one capture."""

    def __init__(self) -> None:
        self._shared: dict[Hashable, Workspace] = {}

    def of(
        self, stream: Hashable, call: UpdatableCall, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Workspace | None:
        """The one of an operator that asks for it by values; None where it does not, or was given some."""
        op = call.overload
        if kwargs.get(NAME) is not None or all(a.name != NAME for a in op._schema.arguments):
            return None
        query = _by_values(op)
        if query is None:
            return None
        names = (None,) * len(args) + tuple(kwargs)
        given = zip(names, (*args, *kwargs.values()), strict=True)
        kind = (
            stream, op, *((name, text_of(a) if isinstance(a, Tensor) else repr(a)) for name, a in given)
        )  # fmt: skip
        if kind not in self._shared:
            self._shared[kind] = Workspace(query, query(*args, **kwargs))
        return self._shared[kind]


def largest(call: UpdatableCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """What any values of the host parameters need, where the operator can tell."""
    name = call.overload._schema.name
    query = _packet(f"_{_operator(call.overload)}_get_max_workspace", call.overload)
    if query is None:
        return None
    try:
        workspace: Tensor = query(*args, **kwargs)
    except RuntimeError as error:
        if "libnnopbase" not in str(error):
            raise
        log.warning("%s cannot tell its largest workspace (%s): each call takes its own", name, error)
        return None
    return workspace


def _by_values(op: OpOverload) -> Callable[..., Tensor] | None:
    """The query of an operator, which takes what the operator takes but its results and its memory."""
    packet = _packet(f"_{_operator(op).removeprefix('_')}_get_workspace", op)
    if packet is None:
        return None
    overload = getattr(packet, packet.overloads()[0])
    known = {a.name for a in overload._schema.arguments}

    def asked(*args: Any, **kwargs: Any) -> Tensor:
        found: Tensor = overload(*args, **{name: value for name, value in kwargs.items() if name in known})
        return found

    return asked


def _operator(op: OpOverload) -> str:
    return str(op._schema.name.partition("::")[2])


def _packet(name: str, op: OpOverload) -> OpOverloadPacket | None:
    found: OpOverloadPacket | None = getattr(getattr(torch.ops, op.namespace), name, None)
    return found


def _plain(value: Any) -> Hashable:
    return tuple(value.flatten().tolist()) if isinstance(value, Tensor) else repr(value)
