"""`debug.fx_summary`: a table of the operators of a graph, and how each reaches Ascend IR.

Support is not guessed from the name: the graph is lowered, and what the lowering refuses is in the table with its
reason. One row for each operator and way; the tensors are those of all its calls.
"""

from __future__ import annotations

import csv
import io
import logging
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from torch import fx
from torch.utils import _pytree as pytree

from air_backend.dump._place import stamp
from air_config import variables
from air_geir import lower_program
from air_geir.errors import UnsupportedGraphError
from air_graph import files
from air_graph.page import text_of
from air_graph.pieces import LeftOut

log = logging.getLogger(__name__)

HEAD: Final = ("operator", "kind", "support", "way", "calls", "inputs", "outputs", "reason", "lines")


@dataclass
class _Row:
    kind: str
    way: str
    calls: int = 0
    inputs: Counter[str] = field(default_factory=Counter)
    outputs: Counter[str] = field(default_factory=Counter)
    refused: list[LeftOut] = field(default_factory=list)

    @property
    def support(self) -> str:
        if not self.refused:
            return "yes"
        return "no" if len(self.refused) >= self.calls else "partly"

    def cells(self, operator: str) -> tuple[str, ...]:
        reasons = dict.fromkeys(each.reason for each in self.refused)
        places = dict.fromkeys(each.source or each.node for each in self.refused)
        counted = (_counted(self.inputs), _counted(self.outputs))
        return (
            operator,
            self.kind,
            self.support,
            self.way,
            str(self.calls),
            *counted,
            "; ".join(reasons),
            "; ".join(places),
        )


def summarize(
    gm: fx.GraphModule, example_inputs: Sequence[Any], name: str, folder: str | None = None
) -> Path:
    """Writes the table; gives its path."""
    path = (
        Path(folder or ".")
        / f"summary_{name}_rank_{variables.number('RANK', 0)}_pid_{os.getpid()}_ts_{stamp()}.csv"
    )
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow(HEAD)
    writer.writerows(row.cells(operator) for operator, row in _rows(gm, example_inputs).items())
    files.write_text(path, table.getvalue(), "the summary of operators")
    log.info("summary of %s written to %s", name, path)
    return path


def _rows(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> dict[str, _Row]:
    from air_geir.coverage import way_of  # here: it declares operators

    refused = {each.node: each for each in _refused(gm, example_inputs)}
    rows: dict[str, _Row] = {}
    for node in gm.graph.nodes:
        if node.op != "call_function":
            continue
        operator = (
            str(node.target) if _is_operator(node) else getattr(node.target, "__name__", str(node.target))
        )
        if operator not in rows:
            way = way_of(operator).way if _is_operator(node) else "computed when the graph is built"
            rows[operator] = _Row("operator" if _is_operator(node) else "python", way)
        row = rows[operator]
        row.calls += 1
        row.inputs.update(map(_shown, (n.meta.get("val") for n in node.all_input_nodes)))
        row.outputs.update(map(_shown, pytree.tree_leaves(node.meta.get("val"))))
        if node.name in refused:
            row.refused.append(refused[node.name])
    return dict(sorted(rows.items(), key=lambda item: (item[1].support == "yes", item[0])))


def _is_operator(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload)


def _refused(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Sequence[LeftOut]:
    try:
        lower_program(gm, example_inputs)
    except UnsupportedGraphError as error:
        return error.found
    return ()


def _shown(value: Any) -> str:
    return text_of(value) if isinstance(value, torch.Tensor) else type(value).__name__


def _counted(values: Counter[str]) -> str:
    return "; ".join(f"{text} x{count}" for text, count in values.most_common())
