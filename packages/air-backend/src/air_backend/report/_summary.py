"""The first tab: what ran where, what a call costs, and what was refused, grouped by reason and line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from air_backend.report._counts import captures, captures_of
from air_backend.report._watch import Watch
from air_graph.page import Page

SHOWN: Final = 40
"""Rows of a table of the first tab; the tab of passes has all of them."""


@dataclass(frozen=True)
class Refused:
    """Refusals with one reason at one line."""

    reason: str
    source: str
    nodes: tuple[str, ...]
    passes: tuple[str, ...]
    nbytes: int
    """What these nodes write again in each call; 0 where a later pass had its way after all."""


def refused(graph: Mapping[str, Any], watch: Watch | None) -> list[Refused]:
    """The refusals of one graph, the most expensive first; a node that several passes refuse alike counts once."""
    steps = graph["passes"] if isinstance(graph["passes"], list) else []
    sizes: dict[str, int] = {}
    for picture in watch.pictures if watch is not None else ():
        if picture.title.endswith(
            "left it"
        ):  # what passes refused and a later one did has no bytes of its own there
            sizes.update((node.name, node.nbytes) for node in picture.nodes)
    groups: dict[tuple[str, str], tuple[dict[str, None], dict[str, None]]] = {}
    for step in steps:
        for refusal in step["refusals"]:
            nodes, passes = groups.setdefault((refusal["reason"], refusal["source"]), ({}, {}))
            nodes[refusal["node"]] = passes[step["name"]] = None
    found = [
        Refused(reason, source, tuple(nodes), tuple(passes), sum(sizes.get(node, 0) for node in nodes))
        for (reason, source), (nodes, passes) in groups.items()
    ]
    return sorted(found, key=lambda each: (-each.nbytes, -len(each.nodes)))


def summary(page: Page, data: Mapping[str, Any], watches: Mapping[str, Watch]) -> str:
    """The tab, as HTML."""
    graphs = data["graphs"]
    parts = [_facts(data, watches), "<h2>What ran where</h2>", _graphs(graphs, watches)]
    for graph in graphs:
        parts.append(_graph(page, graph, watches.get(graph["name"]), len(graphs) > 1))
    if breaks := data["graph breaks"]:
        rows = [[_n(each["count"]), _why(each), _line(page, each["where"])] for each in breaks]
        parts += ["<h2>Graph breaks</h2>", table(("how often", "why", "line"), rows)]
    if calls := data["calls run eagerly"]:
        rows = [[_n(count), escape(reason)] for reason, count in calls.items()]
        parts += ["<h2>Calls run eagerly</h2>", table(("how often", "why"), rows)]
    return "".join([*parts, _EXPORTS])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already; numbers stand on the right."""
    top = "".join(f"<th>{escape(text)}</th>" for text in head)
    body = "".join(
        f"<tr>{''.join(cell if cell.startswith('<td') else f'<td>{cell}</td>' for cell in row)}</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def size(count: float) -> str:
    """Bytes for people."""
    units = ["B", "KiB", "MiB", "GiB"]
    while count >= 1024 and len(units) > 1:
        count, units = count / 1024, units[1:]
    return f"{count:.0f} {units[0]}" if units[0] == "B" or count >= 100 else f"{count:.1f} {units[0]}"


def _n(value: object) -> str:
    return f'<td class="n">{escape(str(value))}</td>'


def _line(page: Page, source: str) -> str:
    at = page.source(source)
    if at < 0:
        return '<span class="soft">no line is known</span>'
    place, _, code = source.partition("   ")
    short = "/".join(place.split("/")[-2:])
    button = f'<button type="button" class="link" data-line="{at}" title="{escape(place)}">{escape(short)}</button>'
    return f"{button}<pre>{escape(code)}</pre>"


def _why(broken: Mapping[str, Any]) -> str:
    said = [broken.get("explanation", ""), *broken.get("hints", ())]
    return escape(broken["reason"]) + "".join(f'<p class="soft">{escape(text)}</p>' for text in said if text)


def _found(node: str) -> str:
    return f'<button type="button" class="link" data-find="{escape(node)}">{escape(node)}</button>'


def _copied(graph: Mapping[str, Any], watch: Watch | None) -> tuple[int, int]:
    """How many inputs each call copies into memory of the capture, and their bytes."""
    inputs = (each for part in captures_of(graph) for each in part.get("inputs", ()))
    names = [each["name"] for each in inputs if each.get("kind") == "copied"]
    return len(names), sum(watch.inputs.get(name, 0) for name in names) if watch is not None else 0


def _facts(data: Mapping[str, Any], watches: Mapping[str, Watch]) -> str:
    graphs = data["graphs"]
    copied = [_copied(graph, watches.get(graph["name"])) for graph in graphs]
    inside = [copy for watch in watches.values() for copy in watch.copies]
    groups = [each for graph in graphs for each in refused(graph, watches.get(graph["name"]))]
    found = [
        *((count, name) for name, count in data["summary"].items()),
        (f"{sum(n for n, _ in copied)} · {size(sum(b for _, b in copied))}", "inputs copied per call"),
        (f"{len(inside)} · {size(sum(c.bytes_moved for c in inside))}", "copies inside per call"),
        (
            f"{sum(len(g.nodes) for g in groups):,} · {size(sum(g.nbytes for g in groups))}",
            "refused, and what it writes",
        ),
    ]
    rows = "".join(f"<li><b>{escape(str(value))}</b>{escape(name)}</li>" for value, name in found)
    return f'<ul class="facts">{rows}</ul>'


def _graphs(graphs: Sequence[Mapping[str, Any]], watches: Mapping[str, Watch]) -> str:
    rows = []
    for graph in graphs:
        watch = watches.get(graph["name"])
        passed = [p for p in watch.pictures if p.title.endswith("left it")] if watch is not None else []
        after = sum(len(picture.nodes) for picture in passed) or graph["nodes"]
        peak = max((memory.peak_bytes for _, memory in watch.memory), default=0) if watch is not None else 0
        counts = (f"{graph['nodes']:,} → {after:,}", graph["pieces"], captures(graph))
        seconds = f"{graph['compile seconds']:.2f}"
        names = (graph["name"], graph["role"], graph["executor"], graph["device"])
        rows.append([*(escape(str(name)) for name in names), *map(_n, (*counts, size(peak), seconds))])
    head = (
        "graph",
        "role",
        "executor",
        "device",
        "nodes",
        "pieces",
        "captures",
        "memory at the peak",
        "seconds",
    )
    return table(head, rows)


def _graph(page: Page, graph: Mapping[str, Any], watch: Watch | None, named: bool) -> str:
    about = f" in {escape(graph['name'])}" if named else ""
    parts = []
    if operators := graph["streams"].get("operators"):
        parts += [
            f"<h2>Streams{about}</h2>",
            table(("operators", "stream"), [[_n(n), escape(s)] for s, n in operators.items()]),
        ]
        findings = graph["streams"]["findings"]
        if findings:
            link = '<button type="button" class="link" data-open="lanes">Streams</button>'
            parts.append(f'<p class="bad">{len(findings)} findings: {link}</p>')
    if left := graph.get("eager"):
        rows = [
            [_found(each["operator"]), escape(each["because"]), _line(page, each["where"])]
            for each in left[:SHOWN]
        ]
        parts += [
            f"<h2>Run eagerly between pieces{about}: {len(left)}</h2>",
            table(("operator", "because", "line"), rows),
        ]
    if graph["notices"]:
        parts += [
            f"<h2>Notices{about}</h2>",
            "".join(f"<pre>{escape(text)}</pre>" for text in graph["notices"]),
        ]
    if groups := refused(graph, watch):
        rows = [
            [_n(len(g.nodes)), _n(size(g.nbytes) if g.nbytes else "none"), f'<td class="why">{escape(g.reason)}</td>',
             _line(page, g.source), ", ".join(map(escape, g.passes)), _found(g.nodes[0])]
            for g in groups[:SHOWN]
        ]  # fmt: skip
        parts += [
            f"<h2>Refused{about}</h2>",
            '<p class="soft">By reason and line, the most expensive first. Bytes are what these nodes write again in '
            "each call; without any, a later pass had its way, or the node makes nothing.</p>",
            table(("nodes", "bytes", "reason", "line", "refused by", "for example"), rows),
        ]
        if len(groups) > SHOWN:
            parts.append(f"<p>{len(groups) - SHOWN} more: see the tab of passes.</p>")
    return "".join(parts)


_EXPORTS: Final = "<h2>Take it elsewhere</h2>" + table(
    ("with", "what, and how"),
    [
        (tool, f"{what}: {' or '.join(f'<code>{escape(way)}</code>' for way in ways)}")
        for tool, what, *ways in (
            ("Perfetto, chrome://tracing", "the streams", 'StreamPlan.of(gm).timeline().save("plan.json")'),
            (
                "Netron, TensorBoard",
                "the Ascend IR",
                'config.debug.graph_dump.type = "pbtxt"',
                'air_geir.dump.dump(graph, "graph.pbtxt")',
            ),
            ("tlparse", "graphs among torch's own", "TORCH_TRACE=trace python ...; tlparse trace"),
            (
                "a program",
                "all of this as data",
                'explain(...).save("report.json")',
                "air explain ... --json",
            ),
        )
    ],
)
