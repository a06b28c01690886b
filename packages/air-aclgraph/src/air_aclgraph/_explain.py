"""What an executable reports: inputs, keys, plan and history, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from air_aclgraph._captured import Captured
from air_aclgraph._key import Key
from air_aclgraph._results import Result
from air_aclgraph._update import UpdatePlan
from air_aclgraph.static_kernel import StaticKernels
from air_graph import source_of as where

if TYPE_CHECKING:
    from air_aclgraph._executable import Executable


def explained(
    executable: Executable,
    updates: UpdatePlan | None,
    kernels: StaticKernels | None,
    captured: Iterable[Captured],
    history: Sequence[str],
) -> dict[str, Any]:
    """Why each input is handled as it is, what was captured, and what happened since."""
    return {
        "graph": executable.name,
        "runtime": executable.runtime.name,
        "options": executable.options.as_written(),
        "large inputs are bound": executable.options.bind_large,
        "plan": {**asdict(executable.resources), "device": asdict(executable.runtime.limits())},
        "updates": [] if updates is None else [
            {"operator": str(call.overload), "parameters": sorted(call.places), "where": str(where(node) or "")}
            for node, call in updates.calls.items()
        ],
        "inputs": [
            {"index": s.index, "name": s.name, "kind": s.kind.value, "because": s.because, "whole": s.whole}
            for s in executable.slots
        ],
        "keys": [
            {"key": c.key, "tasks": c.recording.tasks, "bytes": c.nbytes, "replays": c.count[0],
             "kinds": [k.value for k in c.kinds],
                     "outputs": executable.handed_out(c.key), "notes": list(c.recording.notes)}
            for c in captured
        ],
        "fused": {} if executable.fused is None else executable.fused.explain(),
        "static kernels": [] if kernels is None else kernels.explain(),
        "history": list(history),
    }  # fmt: skip


def capture_text(name: str, key: Key, results: Sequence[Result]) -> str:
    """One capture in a line: the graph, the shape key, and the line that computes its last output."""
    places = [str(result.where) for result in results if result.where is not None]
    return f"the capture of {name} for key {key}" + (f", which ends at {places[-1]}" if places else "")
