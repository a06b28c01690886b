"""Composes the page: summary, graphs, streams, memory, passes, lines of the program, and the data itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from air_backend.report._memory import Memory
from air_backend.report._summary import size, summary
from air_backend.report._watch import Watch
from air_graph.page import Page, Picture
from air_streams import Timeline


def page_of(data: Mapping[str, Any], watches: Mapping[str, Watch], timelines: Sequence[Timeline]) -> str:
    """One page that needs nothing beside itself."""
    page = Page(str(data["function"]))
    if pictures := [picture for graph in data["graphs"] for picture in _pictures(graph, watches)]:
        page.graphs(pictures)
    if timelines:
        timelines[0].show_on(page, *timelines[1:])
    if memory := [_memory(page, *each) for watch in watches.values() for each in watch.memory]:
        page.add("memory", "Memory", pictures=memory)
    if passes := [_passes(page, graph, watches.get(graph["name"])) for graph in data["graphs"]]:
        page.add("passes", "Passes", pictures=passes)
    page.summary = summary(page, data, watches)
    page.add("source", "Source")
    page.add("tree", "Data", data=data)
    return page.html()


def _pictures(graph: Mapping[str, Any], watches: Mapping[str, Watch]) -> Iterator[Picture]:
    """The pictures of one graph, with what was refused beside each node; what ran comes first."""
    watch = watches.get(graph["name"])
    if watch is None:
        return
    said: dict[str, dict[str, None]] = {}
    for step in graph["passes"] if isinstance(graph["passes"], list) else ():
        for refusal in step["refusals"]:
            said.setdefault(refusal["node"], {})[f"{step['name']}: {refusal['reason']}"] = None
    for picture in sorted(watch.pictures, key=lambda each: each.title.endswith("gave it")):
        nodes = [
            replace(node, notes=tuple(said[node.name]))
            if node.name in said and "Ascend" not in picture.title
            else node
            for node in picture.nodes
        ]
        yield replace(picture, nodes=nodes)


def _memory(page: Page, title: str, memory: Memory) -> dict[str, Any]:
    return {
        "title": title,
        "text": f"At most {size(memory.peak_bytes)} of the graph's own results are alive at once, at "
        f"{memory.names[memory.peak] if memory.names else 'no node'}; inputs and weights are not counted. Counted from "
        "the graph: the allocator of a device rounds up.",
        "names": memory.names,
        "live": memory.live,
        "peak": memory.peak,
        "sources": [page.source(source) for source in memory.sources],
        "largest": [(name, nbytes, page.source(source)) for name, nbytes, source in memory.largest],
    }


def _passes(page: Page, graph: Mapping[str, Any], watch: Watch | None) -> dict[str, Any]:
    changed = iter(watch.changed if watch is not None else ())
    steps = []
    for step in graph["passes"] if isinstance(graph["passes"], list) else ():
        lines = next((found for name, found in changed if name == step["name"]), [])
        groups = Counter((refusal["reason"], refusal["source"]) for refusal in step["refusals"])
        steps.append(
            {
                "name": step["name"],
                "before": step["nodes_before"],
                "after": step["nodes_after"],
                "ms": round(step["seconds"] * 1e3, 2),
                "notes": step["notes"],
                "rolledBack": step["rolled_back"],
                "refused": len(step["refusals"]),
                "groups": [
                    (why, page.source(source), count) for (why, source), count in groups.most_common()
                ],
                "changed": [(each.before, each.after) for each in lines],
            }
        )
    return {"title": graph["name"], "steps": steps}
