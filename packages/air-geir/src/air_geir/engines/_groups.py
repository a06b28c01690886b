"""Names the communicators of a graph's collectives the way the Graph Engine knows them.

A functional collective of torch names its process group ("0"); the engine finds a communicator by the name that HCCL
gave it. The name is asked for when the graph is compiled, which creates the communicator where no eager collective has
used the group yet. That needs all ranks at once, and every rank compiles the graph at its first call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
import torch.distributed as dist

from air_geir.errors import EngineError
from air_geir.ir import Graph, Node
from air_graph import ranks


def name_communicators(graph: Graph) -> None:
    """Replaces the names of torch's process groups; a name that is none of them is HCCL's own and stays."""
    for node in _collectives(graph):
        name = _named(node.attr("group"))
        group = ranks.group_named(name)
        if group is not None:
            node.set_attr("group", _communicator(group, name, node.op_type, str(node.origin or "")))


class NamedGroups:
    """What the collectives of a graph call their process groups, before the engine's names take their place."""

    def __init__(self, graph: Graph) -> None:
        self._nodes = [(node, _named(node.attr("group"))) for node in _collectives(graph)]
        self.names: tuple[str, ...] = tuple(dict.fromkeys(name for _, name in self._nodes))

    def restore(self) -> None:
        """Puts these names back, for the graph to be compiled again."""
        for node, name in self._nodes:
            node.set_attr("group", name)


def _collectives(graph: Graph) -> Iterator[Node]:
    """Those of a graph and of its branches."""
    for node in graph:
        for inner in node.subgraphs.values():
            yield from _collectives(inner)
        if "group" in node.attrs:
            yield node


def _named(given: object) -> str:
    return given.decode() if isinstance(given, bytes) else str(given)


def _communicator(group: dist.ProcessGroup, name: str, operator: str, origin: str) -> str:
    backend: Any
    try:
        backend = group._get_backend(torch.device("npu"))
    except RuntimeError as error:
        raise EngineError(
            f"{operator}: process group {name!r} has no backend for npu tensors: {error}",
            where=origin or None,
            advice="torch.distributed.init_process_group('hccl') before the model is compiled",
        ) from error
    return cast(str, backend.get_hccl_comm_name(dist.get_rank(), init_comm=True))
