"""Writes the tensors of operators while a graph runs on the reference engine, as `dump_config` asks.

    <path>/<graph>/<run>/MatMul.MatMul_2.output.0.npy
    <path>/<graph>/<run>/statistics.csv                       with dump_data = "stats"
    <path>/worldsize2_global_rank1/<graph>/<run>/...          in a job of several processes

Every planned step is a function of its own, so a step that is dumped is that function with another around it, and a
graph that is not dumped runs as if this module were not there.
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from air_geir.engines import TensorDump
from air_geir.ir import Node
from air_geir.reference._plan import Step
from air_graph.files import folder, write_npy, writing

log = logging.getLogger(__name__)

HEAD = ("operator", "type", "side", "index", "dtype", "shape", "minimum", "maximum", "mean", "norm")


class Writer:
    """Writes what one compiled graph computes; `run` counts its calls."""

    def __init__(self, dump: TensorDump, graph: str) -> None:
        self.dump = dump
        self.folder = Path(dump.path) / graph
        self.run = -1
        self.graph = graph
        self.named = 0
        """Steps of operators that the dump names."""

    def starts(self) -> None:
        """The graph is called once more."""
        self.run += 1
        if self._wanted():
            folder(self.folder / str(self.run), "the folder of dumped tensors")

    def around(self, step: Step) -> Callable[..., Any]:
        """The function of a step, which also writes what goes in and what comes out."""
        node, function = step.node, step.function
        if node is None or not self._names(node):
            return function
        self.named += 1

        def call(*arguments: Any) -> Any:
            if not self._wanted():
                return function(*arguments)
            if "input" in self.dump.sides:  # before the call: an operator may write into them
                self._write(node, "input", arguments)
            result = function(*arguments)
            if "output" in self.dump.sides:
                self._write(node, "output", (result,))
            return result

        return call

    def warn_of_nothing(self) -> None:
        """Once all steps were seen: says that none of them is written, where names were given."""
        if self.dump.nodes is not None and not self.named:
            names = ", ".join(sorted(self.dump.nodes))
            log.warning(
                "%s: nothing is dumped: no operator of the graph has the name or the type %s (dump_config.dump_layer); "
                'config.debug.graph_dump.type = "py" writes the graph with its names',
                self.graph,
                names,
            )

    def _wanted(self) -> bool:
        return not self.dump.steps or any(self.run in steps for steps in self.dump.steps)

    def _names(self, node: Node) -> bool:
        chosen = self.dump.nodes
        fx = node.origin.fx if node.origin is not None else None
        return chosen is None or node.name in chosen or node.op_type in chosen or fx in chosen

    def _write(self, node: Node, side: str, values: Sequence[Any]) -> None:
        folder = self.folder / str(self.run)
        tensors = [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]
        if self.dump.statistics:
            _append(folder / "statistics.csv", [_line(node, side, at, t) for at, t in enumerate(tensors)])
            return
        for at, tensor in enumerate(tensors):
            name = f"{node.op_type}.{node.name.replace('/', '_')}.{side}.{at}.npy"
            write_npy(folder / name, tensor, "a dumped tensor")


def _line(node: Node, side: str, at: int, tensor: torch.Tensor) -> tuple[Any, ...]:
    head = (node.name, node.op_type, side, at, str(tensor.dtype).removeprefix("torch."), list(tensor.shape))
    return (*head, *_statistics(tensor))


def _statistics(tensor: torch.Tensor) -> Iterator[float]:
    values = (tensor.abs() if tensor.is_complex() else tensor).to(torch.float64)
    if values.numel():
        yield from (values.min().item(), values.max().item(), values.mean().item(), values.norm().item())


def _append(path: Path, lines: Sequence[Sequence[Any]]) -> None:
    fresh = not path.exists()
    with writing(path, "the statistics"), path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if fresh:
            writer.writerow(HEAD)
        writer.writerows(lines)
