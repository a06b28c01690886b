"""Runs a case, eager or compiled, and notes after every step all that its caller can see."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from air_graph.testing._case import Case

Function = Callable[..., Any]
_FILE = "<program>"
_OF_SCRIPT = re.compile(r"m|[abcgr]\d+")
"""Names that a script makes; Dynamo puts more of them beside the function."""


@dataclass(frozen=True)
class ValueView:
    """What a caller sees of one value."""

    value: Any
    size: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    offset: int = 0
    dtype: str = ""
    device: str = ""
    requires_grad: bool = False
    bits: tuple[bool, bool] = (False, False)
    """Whether it is marked as conjugated, and as negated."""
    storage: str = ""
    """The first value that lies in the same storage."""
    identity: str = ""
    """The first value that is the same object."""


@dataclass(frozen=True)
class Step:
    """A line of the script and what can be seen after it."""

    text: str
    seen: dict[str, ValueView]


@dataclass(frozen=True)
class Trace:
    """What a run showed, and the exception that ended it."""

    steps: tuple[Step, ...]
    raised: BaseException | None = None
    failed: str = ""
    """The line that raised, or that had run before a value could not be read."""


def names_of(case: Case) -> dict[str, Any]:
    """The names of a script: torch and the program as a plain function `f`, with source lines that errors can quote."""
    source = case.source()
    linecache.cache[_FILE] = (len(source), None, source.splitlines(True), _FILE)
    names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(compile(source, _FILE, "exec"), names)
    return names


def run_case(case: Case, prepare: Callable[[Function], Function] | None = None) -> Trace:
    """Runs the script; `prepare` compiles the function, and without it the run is eager's."""
    names = names_of(case)
    steps: list[Step] = []
    if prepare is not None:
        names["f"] = prepare(names["f"])
    with _quiet(), without_dynamo() if prepare is None else contextlib.nullcontext():
        for text in case.script:
            try:
                exec(text, names)
                if _shows(text):
                    steps.append(Step(text, look(names)))
            except Exception as raised:
                raised.__traceback__ = None
                return Trace(tuple(steps), raised, text)
    return Trace(tuple(steps))


def _shows(text: str) -> bool:
    """Making inputs shows nothing that can differ."""
    return "f(" in text or "_(" in text or "backward" in text or "grad" in text or "] = " in text


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def without_dynamo() -> contextlib.AbstractContextManager[object]:
    """Without Dynamo: in eager `torch.cond` would call it."""
    stance: contextlib.AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance


def look(names: dict[str, Any]) -> dict[str, ValueView]:
    """Everything that the script's names hold, and the gradients of the tensors among it."""
    leaves: dict[str, Any] = {}
    for name, value in names.items():
        if _OF_SCRIPT.fullmatch(name):
            _leaves(name, value, leaves)
    memory = Memory()
    objects: dict[int, str] = {}
    return {path: _seen(path, leaf, memory, objects) for path, leaf in leaves.items()}


class Memory:
    """Which values lie in one storage, or in storages that have bytes in common."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._ranges: list[tuple[int, int, str]] = []

    def name(self, storage: torch.UntypedStorage, path: str) -> str:
        """The path of the first value that was in this memory."""
        known = self._names.get(storage._cdata)
        if known is None:
            known = self._names[storage._cdata] = self._overlapping(storage, path)
        return known

    def _overlapping(self, storage: torch.UntypedStorage, path: str) -> str:
        if not storage.nbytes():
            return path
        start = storage.data_ptr()
        end = start + storage.nbytes()
        for first, last, name in self._ranges:
            if start < last and first < end:
                return f"{name} (another storage over the same bytes)"
        self._ranges.append((start, end, path))
        return path


def _leaves(path: str, value: Any, into: dict[str, Any]) -> None:
    if isinstance(value, (tuple, list)):
        for at, part in enumerate(value):
            _leaves(f"{path}[{at}]", part, into)
    elif isinstance(value, dict):
        for key, part in value.items():
            _leaves(f"{path}[{key!r}]", part, into)
    elif isinstance(value, torch.nn.Module):
        for key, part in (*value.named_parameters(), *value.named_buffers()):
            _leaves(f"{path}.{key}", part, into)
    else:
        into[path] = value
        if isinstance(value, Tensor) and value.is_leaf and value.grad is not None:
            into[f"{path}.grad"] = value.grad


def _seen(path: str, leaf: Any, memory: Memory, objects: dict[int, str]) -> ValueView:
    if not isinstance(leaf, Tensor):
        return ValueView(leaf)
    storage = leaf.untyped_storage()
    value = leaf.detach().resolve_conj().resolve_neg()
    return ValueView(
        value=value.clone() if value.is_meta else value.to("cpu", copy=True),
        size=tuple(leaf.shape),
        stride=leaf.stride(),
        offset=int(leaf.storage_offset()),
        dtype=str(leaf.dtype),
        device=str(leaf.device),
        requires_grad=leaf.requires_grad,
        bits=(leaf.is_conj(), leaf.is_neg()),
        storage=memory.name(storage, path),
        identity=objects.setdefault(id(leaf), path),
    )
