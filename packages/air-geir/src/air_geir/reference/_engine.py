"""The reference engine: Ascend IR on the CPU, planned once, run as straight-line Python."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import torch

from air_geir.engines import Compiled, EngineOptions, Unavailable
from air_geir.ir import Graph
from air_geir.program import Program
from air_geir.reference._dump import Writer
from air_geir.reference._of_a_device import for_its_device
from air_geir.reference._plan import Plan, Planner, Step

_serial = count()
Run = Callable[..., Sequence[torch.Tensor]]


class ReferenceEngine:
    """Runs a graph with torch's CPU operators; works everywhere, on copies where tensors lie on a device."""

    name = "reference"

    def unavailable(self) -> Unavailable | None:
        """Always available."""
        return None

    def compile(self, program: Program, options: EngineOptions) -> Compiled:
        """Plans the graph and makes the function that runs it."""
        args = {b.arg: i for i, b in enumerate(program.inputs) if hasattr(b, "arg")}
        assigned = {out: args[arg] for out, arg in program.assigned.items() if arg in args}
        writer = Writer(options.dump, program.graph.name) if options.dump is not None else None
        plan, run = compile_plan(program.graph, assigned, set(program.assigned), writer)
        if writer is not None:
            writer.warn_of_nothing()
        return CompiledReference(for_its_device(run, program), plan, writer)


class CompiledReference:
    """A planned graph."""

    def __init__(self, run: Run, plan: Plan, writer: Writer | None = None) -> None:
        self._writer = writer
        self._run = run
        self._plan = plan
        self._calls = 0

    def __call__(
        self, inputs: Sequence[torch.Tensor], assigned: Sequence[torch.Tensor | None]
    ) -> Sequence[torch.Tensor]:
        self._calls += 1
        if self._writer is not None:
            self._writer.starts()
        with torch.no_grad():
            return self._run(inputs, assigned)

    def stats(self) -> Mapping[str, object]:
        """What the plan consists of, and how often it ran."""
        plan = self._plan
        return {
            "engine": "reference",
            "steps": len(plan.steps),
            "folded": plan.folded,
            "host_sizes": plan.hosted,
            "protective_copies": plan.copies,
            "calls": self._calls,
        }

    def close(self) -> None:
        """Nothing outlives the object."""

    def source(self) -> str:
        """The function that runs, one line per operator."""
        return source_of(self._plan, ())


def run_graph(graph: Graph, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Runs a graph once; for a graph without a program around it, such as one read from a file."""
    with torch.no_grad():
        return list(compile_graph_alone(graph)(inputs, ()))


def compile_graph_alone(graph: Graph) -> Run:
    """The function of a graph's inputs (a sequence) that gives its outputs."""
    return compile_plan(graph, {}, set())[1]


def compile_plan(
    graph: Graph, assigned: Mapping[int, int], targets: set[int], writer: Writer | None = None
) -> tuple[Plan, Run]:
    """Plans a graph and compiles the plan; `writer` writes the tensors of its steps."""
    plan = Planner(graph, assigned, compile_graph_alone, each=writer is not None).make()
    source = source_of(plan, sorted(targets))
    filename = f"<air_geir reference {graph.name} {next(_serial)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    names: dict[str, Any] = dict(plan.globals)
    call = writer.around if writer is not None else lambda step: step.function
    names.update((f"k{i}", call(step)) for i, step in enumerate(plan.steps))
    exec(compile(source, filename, "exec"), names)
    run: Run = names["run"]
    return plan, run


def source_of(plan: Plan, targets: Sequence[int]) -> str:
    """The plan as Python: one call per step, and a `del` where a storage is not needed any more."""
    lines = ["def run(inputs, assigned):"]
    if plan.inputs:
        lines.append(f"    {', '.join(plan.inputs)}, = inputs")
    last = _last_uses(plan)
    for i, step in enumerate(plan.steps):
        lines.append(_line(i, step))
        dead = last.get(i)
        if dead:
            lines.append(f"    del {', '.join(dead)}")
    for target in targets:
        lines.append(f"    if assigned and assigned[{target}] is not None and assigned[{target}] is not "
                     f"{plan.outputs[target]}: assigned[{target}].copy_({plan.outputs[target]})")  # fmt: skip
    results = [
        f"{o}.contiguous().data, " if i in plan.strided else f"{o}, " for i, o in enumerate(plan.outputs)
    ]
    lines.append(f"    return ({''.join(results)})")
    return "\n".join(lines) + "\n"


def _line(index: int, step: Step) -> str:
    origin = step.node.origin if step.node is not None else ""
    where = _comment(f"{step.label} {origin or ''}".rstrip())
    call = f"k{index}({', '.join(step.arguments)})"
    if not step.results:
        return f"    {call}{where}"
    targets = step.results[0] if step.single else "".join(f"{r}, " for r in step.results).rstrip()
    return f"    {targets} = {call}{where}"


def _comment(text: str) -> str:
    """One line of Unicode: the name of the user's file may have anything in it."""
    return "  # " + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text.replace("\n", " "))


def _last_uses(plan: Plan) -> dict[int, list[str]]:
    """Step -> variables that no later step reads."""
    last: dict[str, int] = {}
    for i, step in enumerate(plan.steps):
        for name in (*step.results, *_names_in(step.arguments)):
            last[name] = i
    kept = set(plan.outputs) | set(plan.globals)
    dead: dict[int, list[str]] = {}
    for name, i in last.items():
        if name not in kept:
            dead.setdefault(i, []).append(name)
    return dead


def _names_in(arguments: Sequence[str]) -> list[str]:
    names: list[str] = []
    for argument in arguments:
        if argument.startswith("["):
            names.extend(part for part in argument[1:-1].split(", ") if part[:1] in "vho" and part)
        elif argument[:1] in "vho":
            names.append(argument)
    return names
