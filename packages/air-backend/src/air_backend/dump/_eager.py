"""`debug.data_dump`: runs a graph operator by operator and writes the tensors of each as npy files.

    <path>/worldsize1_global_rank0/graph_0/3/add_1-aten.add.Tensor.INPUT.0.<time>.npy

One folder per graph and per call. bfloat16 and the 8-bit floating types, which numpy does not know, are widened to
float32, and complex32 to complex64. The filter is called with each node; a node for which it returns None is left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from air_backend.dump._marks import chosen
from air_backend.dump._place import named, stamp
from air_graph import files
from air_graph.executors import WholeGraph

log = logging.getLogger(__name__)

Filter = Callable[[fx.Node], fx.Node | None]


class EagerDump(WholeGraph):
    """A graph that is run eagerly; every call writes its tensors into a folder of its own."""

    def __init__(self, gm: fx.GraphModule, path: str | None, name: str, keep: Filter | None = None) -> None:
        self.name = name
        self.folder = files.rank_folder(path, "the folder of dumped tensors") / name
        self.calls = 0
        self._gm = gm
        marked = chosen(gm)
        self._nodes = frozenset(
            node
            for node in gm.graph.nodes
            if node.op not in ("placeholder", "output", "get_attr")
            and (marked is None or node in marked)
            and (keep is None or keep(node) is not None)
        )

    def __call__(self, *args: Any) -> Any:
        step = self.folder / str(self.calls)
        files.folder(step, "the folder of dumped tensors")
        self.calls += 1
        with torch.no_grad():
            return _Run(self._gm, step, self._nodes).run(*args, enable_io_processing=False)

    def explain(self) -> dict[str, Any]:
        """Where the files are, and how many operators they are about."""
        return {"folder": str(self.folder), "operators": len(self._nodes), "calls": self.calls}


class _Run(fx.Interpreter):
    """One call."""

    def __init__(self, gm: fx.GraphModule, folder: Path, nodes: frozenset[fx.Node]) -> None:
        super().__init__(gm, garbage_collect_values=True)
        self.folder = folder
        self.nodes = nodes

    def run_node(self, n: fx.Node) -> Any:
        if n not in self.nodes:
            return super().run_node(n)
        for index, value in _tensors(self.fetch_args_kwargs_from_env(n)[0]):
            self._write(n, "INPUT", index, value)
        result = super().run_node(n)
        for index, value in _tensors(result if isinstance(result, (tuple, list)) else (result,)):
            self._write(n, "OUTPUT", index, value)
        return result

    def _write(self, node: fx.Node, side: str, index: str, value: torch.Tensor) -> None:
        name = f"{node.name}-{named(node.target)}.{side}.{index}.{stamp()}.npy"
        files.write_npy(self.folder / name, value, "a dumped tensor")


def _tensors(values: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors among values, numbered; those inside a list have the list's number before their own."""
    for index, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            yield str(index), value
        elif isinstance(value, (list, tuple)):
            inner = enumerate(pytree.tree_leaves(value))
            yield from ((f"{index}.{at}", leaf) for at, leaf in inner if isinstance(leaf, torch.Tensor))
