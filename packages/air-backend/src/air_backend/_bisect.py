"""`bisect(fn, *args)`: which part of the compilation makes a result differ from eager.

torch's `CompilerBisector` does the search: first Dynamo alone, then AOTAutograd, then this backend; and in it the FX
passes, the streams, the converters, the passes on Ascend IR and the captures. A part that makes the result right when
it is left out is halved until one pass, stream, node or capture remains.

Each trial calls the function several times, because a capture that froze something shows it on a later call only; the
calls get the same tensors with their elements moved on. On CPU tensors a graph with several streams is also run in
other orders that its streams and events allow: there a missing wait gives wrong numbers instead of luck.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import torch
from torch._inductor.compiler_bisector import CompilerBisector
from torch.utils import _pytree as pytree

from air_aclgraph import HostRuntime, use_runtime
from air_backend import _records
from air_backend._backend import Backend
from air_backend._compiled_with import How, how_to_compile, refuse_words_of_compile
from air_backend._copied import copied, move_on
from air_backend._same import assert_same, refuse_no_calls, refuse_no_tolerance
from air_backend._uncompiled import modules_uncompiled, uncompiled
from air_backend.errors import ResultChanges
from air_config import CompilerConfig
from air_config.published import document
from air_fxpasses import register_bisection

log = logging.getLogger(__name__)

SYSTEMS: Final[dict[str, str]] = {
    "eager": "Dynamo: the captured graph is wrong before any backend compiles it",
    "aot_eager": "AOTAutograd: the graph is wrong before this backend sees it",
    "air": "this backend",
}
KINDS: Final[dict[str, tuple[str, str]]] = {
    "fx_passes": ("FX pass", "config.air.verify = True proves each pass on the graph at hand and undoes a wrong one"),
    "streams": (
        "stream",
        "order it by the waits that the findings name, or config.air.sync = 'auto', which adds them",
    ),
    "converters": ("converter", f"compare the converter with the operator: {document('writing-a-converter')}"),
    "ge_passes": ("pass on Ascend IR", "report it; config.debug.graph_dump.type = 'py' writes the graph around it"),
    "captures": (
        "capture",
        "look for values that the function reads from Python or from the host: a replay repeats what was captured",
    ),
}  # fmt: skip
SHUFFLED_CALLS: Final = 12


@dataclass(frozen=True)
class Verdict:
    """What a bisection found."""

    right: bool
    """Whether the compiled function computed what eager computes in every trial."""
    system: str = ""
    """`eager` (Dynamo), `aot_eager` (AOTAutograd) or `air`; empty when the result is right."""
    part: str | None = None
    """Of `air`: `fx_passes`, `streams`, `converters`, `ge_passes` or `captures`; None when no part is wrong alone."""
    number: int | None = None
    """Which use of the part, from 0."""
    culprit: str = ""
    """The pass, stream, node or capture, in one line."""
    difference: str = ""
    """How the result differs when nothing is left out."""
    findings: tuple[str, ...] = ()
    """What the stream checks say about the graphs."""
    shuffled: bool = False
    """Whether the result is wrong only in another order that streams and events allow."""
    trials: int = field(default=0, compare=False)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)

    def __str__(self) -> str:
        if self.right:
            return f"right: the compiled function computes what eager computes ({self.trials} trials)"
        when = ", in another order that streams and events allow" if self.shuffled else ""
        lines = [f"wrong{when}: {self.difference}"]
        if self.part is None:
            lines.append(f"  culprit  {SYSTEMS[self.system]}")
            if self.system == "air":
                lines.append(
                    f"  advice   no single part explains it; several do, or the engine: {document('accuracy')}"
                )
            return "\n".join(lines)
        kind, advice = KINDS[self.part]
        lines.append(f"  culprit  {kind} number {self.number}: {self.culprit}")
        lines.extend(f"  finding  {finding}" for finding in self.findings)
        lines.append(f"  advice   {advice}")
        return "\n".join(lines)


def bisect(
    function: Callable[..., Any],
    *args: Any,
    compiler_config: CompilerConfig | None = None,
    calls: int = 4,
    rtol: float | None = None,
    atol: float | None = None,
    **kwargs: Any,
) -> Verdict:
    """Finds the part of the compilation that makes `function(*args, **kwargs)` differ from eager.

    Modules and arguments are copied for every trial; Dynamo is reset. A function that is compiled already is compiled
    with the configuration that it has, unless `compiler_config` gives another one.
    """
    refuse_no_calls(calls)
    refuse_no_tolerance(rtol=rtol, atol=atol)
    refuse_words_of_compile(function, args, kwargs, "bisect")
    how = how_to_compile(function, compiler_config, "bisect")
    function = uncompiled(function)
    trial = _Trial(function, args, kwargs, how, calls, rtol, atol)
    with modules_uncompiled(function):
        verdict = _search(trial)
        if verdict.right and trial.several_streams and trial.on_host:
            trial.shuffled, trial.calls = True, max(calls, SHUFFLED_CALLS)
            verdict = _search(trial)
    return verdict


def _search(trial: _Trial) -> Verdict:
    """One search of torch's bisector; what it prints goes to the log."""
    register_bisection()
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            found = CompilerBisector.do_bisect(trial.is_right)
            gc.collect()  # torch ends a bisection when its frame dies: errors of the trials may hold the frame
    except RuntimeError as error:
        if "find_max_bounds" not in str(error):
            raise
        raise ResultChanges(trial.difference) from error
    finally:
        torch._dynamo.reset()
        log.debug("%s", said.getvalue())
    if found is None:
        return Verdict(True, trials=trial.count)
    return Verdict(
        False,
        found.backend,
        found.subsystem,
        found.bisect_number,
        found.debug_info or "",
        trial.difference,
        trial.findings if found.subsystem == "streams" else (),
        trial.shuffled,
        trial.count,
    )


class _Trial:
    """One program to call, compiled in the way that the bisector's state asks for."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        how: How,
        calls: int,
        rtol: float | None,
        atol: float | None,
    ) -> None:
        self.function = function
        self.given = (args, kwargs)
        self.how = how
        self.calls = calls
        self.rtol, self.atol = rtol, atol
        self.shuffled = False
        self.count = 0
        self.difference = ""
        self.findings: tuple[str, ...] = ()
        self.several_streams = False
        self.on_host = False

    def is_right(self) -> bool:
        """Compiles and calls the function once more, and compares with eager."""
        system = CompilerBisector.get_backend()
        if system not in SYSTEMS:
            return True  # a system of torch's table that has no part in this backend
        self.count += 1
        torch._dynamo.reset()
        backend = Backend(self.how.config, self.how.decompositions) if system == "air" else system
        # torch.compile would take the entry point that the bisector names, without this configuration
        compiled = torch._dynamo.optimize(backend, dynamic=self.how.dynamic)(_copy(self.function))
        eager = _copy(self.function)
        with self._runtime(system):
            try:
                difference = self._compare(eager, compiled)
            finally:
                whole = CompilerBisector.get_subsystem() is None
                if system == "air" and whole:
                    self._look_at_plans()
        if difference and CompilerBisector.get_subsystem() is None:
            self.difference = difference
        return not difference

    def _runtime(self, system: str) -> contextlib.AbstractContextManager[Any]:
        if system == "air" and self.shuffled:
            return use_runtime(HostRuntime(order="shuffled"))
        return contextlib.nullcontext()

    def _compare(self, eager: Callable[..., Any], compiled: Callable[..., Any]) -> str:
        """How the compiled function differs from eager; empty when it does not."""
        for call in range(self.calls):
            wanted = self._results(eager, call)
            try:
                got = self._results(compiled, call)
            except Exception as error:  # whatever the compiled function raises is the fault that is searched
                said = (str(error).splitlines() or ["no message"])[0]
                return f"call {call} raises {type(error).__name__}: {said}"
            if difference := self._difference(got, wanted):
                return f"call {call}: {difference}"
        return ""

    def _difference(self, got: list[Any], wanted: list[Any]) -> str:
        """Of the first value that differs."""
        if len(got) != len(wanted):
            return f"eager gives {len(wanted)} values, compiled gives {len(got)}"
        try:
            for left, right in zip(got, wanted, strict=True):
                assert_same(left, right, self.rtol, self.atol)
        except AssertionError as error:
            return " ".join(str(error).split())
        return ""

    def _results(self, function: Callable[..., Any], call: int) -> list[Any]:
        """What a call gives, and what it writes into its arguments and into buffers."""
        args, kwargs = copied(self.given)
        if call:  # each call gets other values
            move_on((args, kwargs), call)
        torch.manual_seed(call)
        result = function(*args, **kwargs)
        buffers = list(function.buffers()) if isinstance(function, torch.nn.Module) else []
        leaves = pytree.tree_leaves((result, args, kwargs, buffers))
        return [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    def _look_at_plans(self) -> None:
        records = [record for record, _ in _records.alive()]
        self.several_streams = any(record.plan.is_multi_stream for record in records)
        self.on_host = all(record.ground.type == "cpu" for record in records)
        findings = (str(finding) for record in records for finding in record.plan.check())
        self.findings = tuple(dict.fromkeys(findings))


def _copy(function: Callable[..., Any]) -> Callable[..., Any]:
    return copy.deepcopy(function) if isinstance(function, torch.nn.Module) else function
