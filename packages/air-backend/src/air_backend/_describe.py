"""One graph's part of a report, as plain dictionaries, lists, strings and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import air_geir
from air_backend._record import CompiledGraph
from air_geir.auto import made_for
from air_geir.converters import find_converter
from air_geir.program import Program
from air_graph.executors import Executor, left_out


def describe(record: CompiledGraph, run: Executor) -> dict[str, Any]:
    """Everything that was decided about one graph."""
    described: dict[str, Any] = {
        "name": record.name,
        "role": record.role,
        "device": str(record.ground),
        "executor": record.executor,
        "nodes": record.nodes,
        "pieces": len(run.pieces) or 1,
        "notices": [str(notice) for notice in record.settings.notices],
        "streams": _streams(record),
    }
    if run.eager:
        described["eager"] = left_out(run.eager)
    if record.host_constants:
        described["host constants"] = [
            {"operator": each.target, "bytes": each.nbytes, "where": each.source or each.node}
            for each in record.host_constants
        ]
    if told := run.explain():
        described[record.executor] = told
    if programs := list(_programs(run)):
        described["converters"] = _converters(record, programs)
    described["passes"] = _passes(record)
    described["compile seconds"] = round(record.seconds, 3)
    return described


def _streams(record: CompiledGraph) -> dict[str, Any]:
    plan = record.plan
    if not plan.is_multi_stream:
        return {"streams": 1}
    counts = Counter(str(plan.stream_of(node)) for node in plan.nodes if plan.actions(node).runs)
    return {
        "streams": len(plan.resources.streams),
        "operators": dict(counts),
        "events": len(plan.resources.events),
        "findings": [str(finding) for finding in plan.check()],
        "redundant waits": [str(finding) for finding in plan.redundant()],
        "added": plan.sync_report.explain().splitlines() if plan.sync_report.mended else [],
    }


def _passes(record: CompiledGraph) -> Any:
    if record.passes is None:
        return "none ran: see the notices"
    return record.passes.to_dict()["steps"]


def _programs(run: Executor) -> Iterable[Program]:
    """The Ascend IR programs behind an executor: one, or those of the pieces of a split graph."""
    for each in (run, *run.pieces.values()):
        if isinstance(each, air_geir.Executable):
            yield each.program


def _converters(record: CompiledGraph, programs: Iterable[Program]) -> list[Mapping[str, Any]]:
    """What each operator of the graph became, and which converter made it."""
    made: dict[str, list[str]] = {}
    for program in programs:
        for node in program.graph:
            if node.origin is not None and node.origin.fx in record.targets:
                made.setdefault(node.origin.fx, []).append(node.op_type)
    return [
        {"node": name, "operator": target, "by": _by(target), "becomes": made.get(name, [])}
        for name, target in record.targets.items()
    ]


def _by(target: str) -> str:
    converter = find_converter(target) or made_for(target)
    if converter is None:
        return "decomposition"
    return f"{converter.function.__module__}.{getattr(converter.function, '__qualname__', '')}"
