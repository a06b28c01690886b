"""Operators that users' passes write in graphs under TorchAir's names: `torch.ops.air.*` and `torch.ops.npugraph_ex.*`.

    torch.ops.air.scope_enter(["_user_stream_label"], ["1"])      stream_enter("1", 0)
    torch.ops.npugraph_ex.tagged_event_wait("66")           ->    event_wait("66")
    torch.ops.air.scope_exit()                                    stream_exit("1")

`declare` makes those that are not there, for a program in which AIR stands in; `adopt` writes ours in their place, in
the graph of Dynamo and after each pass of the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import has_side_effect

import air_backend._print  # noqa: F401  # declares the operator that printing becomes
from air_graph import called_operator, find_operator, named_arguments, place_of
from air_streams.errors import UnbalancedScope

SPACES: Final = ("air", "npugraph_ex")
_SCHEMAS: Final = {
    "scope_enter": "(str[] keys, str[] values, bool need_execute=False) -> ()",
    "scope_exit": "(bool need_execute=False) -> ()",
    "tagged_event_record": "(str tag, bool created_inside=False) -> ()",
    "tagged_event_wait": "(str tag, bool created_inside=False) -> ()",
    "record_tagged_stream": "(Tensor input, str tag) -> ()",
    "record": "(*, Device? device=None) -> Tensor",
    "wait": "(Tensor[] x) -> ()",
    "print": "(Tensor[] tensors, str msg_format, str placeholder, int summarize_size, bool tensor_detail) -> ()",
}
_ours: Final = torch.ops.air_streams

#: How a name of the foreign operators acts in eager code: as ours does there.
_EAGER: Final[Mapping[str, Callable[..., Any]]] = {
    "scope_enter": lambda keys, values, need_execute=False: None,
    "scope_exit": lambda need_execute=False: None,
    "tagged_event_record": lambda tag, created_inside=False: _ours.event_record(tag),
    "tagged_event_wait": lambda tag, created_inside=False: _ours.event_wait(tag),
    "record_tagged_stream": lambda input, tag: _ours.record_stream(input, tag),
    "record": lambda *, device=None: _ours.record(),
    "wait": lambda x: _ours.wait(x),
    "print": lambda *args: torch.ops.air_backend.print(*args),
}
_libraries: Final[list[torch.library.Library]] = []


def declare() -> None:
    """Makes the operators of both names that this process does not have."""
    for space in SPACES:
        absent = [name for name in _SCHEMAS if find_operator(f"{space}::{name}") is None]
        if not absent:
            continue
        library = torch.library.Library(space, "FRAGMENT")
        for name in absent:
            library.define(name + _SCHEMAS[name])
            library.impl(name, _EAGER[name], "CompositeExplicitAutograd")
            value = _marker if name == "record" else _nothing
            torch.library.register_fake(f"{space}::{name}", value, lib=library)
            if name != "record":
                has_side_effect(getattr(getattr(torch.ops, space), name).default)
        _libraries.append(library)  # deregistered when collected


def _nothing(*args: object, **kwargs: object) -> None:
    return None


def _marker(*, device: object = None) -> torch.Tensor:
    return torch.empty(0)


def adopt(gm: GraphModule) -> int:
    """Writes our operators in the place of the foreign ones; how many there were."""
    foreign = [node for node in gm.graph.nodes if _name(node) is not None]
    if not foreign:
        return 0
    scopes: list[list[tuple[Any, tuple[Any, ...]]]] = []
    for node in foreign:
        name, given = str(_name(node)), _arguments(node)
        if name == "scope_enter":
            scopes.append(list(_exits(given["keys"], given["values"])))
            calls = list(_enters(given["keys"], given["values"]))
        elif name == "scope_exit":
            if not scopes:
                raise UnbalancedScope(
                    f"{node.target} ends a scope that no scope_enter of the graph began",
                    where=place_of(node),
                    advice="write scope_enter and scope_exit into the same graph, in pairs",
                )
            calls = scopes.pop()
        else:
            calls = [_single(name, given)]
        _replace(gm.graph, node, calls)
    gm.recompile()
    return len(foreign)


def _name(node: Node) -> str | None:
    op = called_operator(node)
    if op is None or op.namespace not in SPACES:
        return None
    name = op._schema.name.partition("::")[2]
    return name if name in _SCHEMAS else None


def _arguments(node: Node) -> dict[str, Any]:
    op = called_operator(node)
    assert op is not None  # `_name` found it
    return named_arguments(node, op, defaults=True)


def _parts(
    keys: Sequence[str], values: Sequence[str]
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """What a scope says of the stream, of the cores, and to the compiler."""
    named = dict(zip(keys, values, strict=True))
    stream: dict[str, str] = {
        key: named.pop(key) for key in ("_user_stream_label", "_user_stream_priority") if key in named
    }
    cores: dict[str, str] = {
        key: named.pop(key) for key in ("_op_aicore_num", "_op_vectorcore_num") if key in named
    }
    if (level := named.pop("_op_deterministic_level", None)) is not None:
        named.update(_deterministic="0" if level == "0" else "1", _deterministic_level=level)
    return stream, cores, named


def _enters(keys: Sequence[str], values: Sequence[str]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    stream, cores, rest = _parts(keys, values)
    if "_user_stream_label" in stream:
        yield (
            _ours.stream_enter.default,
            (stream["_user_stream_label"], int(stream.get("_user_stream_priority") or 0)),
        )
    if cores:
        counts = (int(cores.get("_op_aicore_num", 0)), int(cores.get("_op_vectorcore_num", 0)))
        yield _ours.core_limit_enter.default, counts
    if rest or not (stream or cores):
        yield _ours.attributes_enter.default, (list(rest), list(rest.values()))


def _exits(keys: Sequence[str], values: Sequence[str]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    stream, cores, rest = _parts(keys, values)
    if rest or not (stream or cores):
        yield _ours.attributes_exit.default, ()
    if cores:
        yield _ours.core_limit_exit.default, ()
    if "_user_stream_label" in stream:
        yield _ours.stream_exit.default, (stream["_user_stream_label"],)


def _single(name: str, given: Mapping[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    if name == "print":
        return torch.ops.air_backend.print.default, tuple(given.values())
    if name == "record":
        return _ours.record.default, ()
    if name == "wait":
        return _ours.wait.default, (given["x"],)
    if name == "record_tagged_stream":
        return _ours.record_stream.default, (given["input"], given["tag"])
    event = _ours.event_record if name == "tagged_event_record" else _ours.event_wait
    return event.default, (given["tag"],)


def _replace(graph: Graph, node: Node, calls: Sequence[tuple[Any, tuple[Any, ...]]]) -> None:
    made = []
    with graph.inserting_before(node):
        for target, args in calls:
            call = graph.call_function(target, args)
            call.meta.update(
                {key: node.meta[key] for key in ("stack_trace", "custom", "val") if key in node.meta}
            )
            made.append(call)
    node.replace_all_uses_with(made[-1])
    graph.erase_node(node)
