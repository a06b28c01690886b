"""Static kernels of one compiled graph: dump, select, look up, compile, install, reselect, report.

    graph.first call of a shape key
        dump      the model runs once; CANN writes a description of each operator      <- the call's own result
        select    each content once, compilable, not on the blacklist
        look up   in the cache, by content                         ┐
        compile   what is missing                                  │ one process of the node at a time
        install   the packages that have this key's operators      ┘
        reselect  the operators of this process look again
    capture, which then sees the kernels

The run that is dumped is the one that the call needs anyway: nothing is computed twice, and inputs that the graph
writes are written once.  A stage that fails leaves the model without static kernels, with one warning.
"""

from __future__ import annotations

import logging
import os
import shutil
import warnings
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from torch._dynamo.utils import counters

from air_aclgraph._key import Key
from air_aclgraph.static_kernel import _cache, _compile, _tree
from air_aclgraph.static_kernel._cache import Cache, Found, Package
from air_aclgraph.static_kernel._libraries import job, library_for, presence, scratch_cache
from air_aclgraph.static_kernel._locks import state_dir
from air_aclgraph.static_kernel._options import Options
from air_aclgraph.static_kernel._report import Report
from air_aclgraph.static_kernel._select import select
from air_aclgraph.static_kernel._toolkit import Toolkit
from air_aclgraph.static_kernel._turn import Turn, turn
from air_aclgraph.static_kernel.errors import StageFailed, StaticKernelWarning, files_of

log = logging.getLogger(__name__)
T = TypeVar("T")

#: Of so many shape keys it is known that they were tried; one that is forgotten finds its kernels in the cache.
TRIED: Final = 4096

#: So many reports are kept, the last ones.
REPORTS: Final = 1000


class StaticKernels:
    """Compiles the operators of one graph, once for each shape key."""

    def __init__(self, options: Options, toolkit: Toolkit) -> None:
        self.options = options
        self.reports: deque[Report] = deque(maxlen=REPORTS)
        self._toolkit = toolkit
        self._tried: dict[Key, None] = {}

    def wants(self, key: Key) -> bool:
        """Whether the next run of a key is to be dumped: it is new, and its symbol is watched."""
        return key not in self._tried and self.options.watches(key)

    def around(self, key: Key, run: Callable[[], T]) -> T:
        """Runs the graph, and if its key is new makes static kernels for the operators that ran."""
        if not self.wants(key):
            return run()
        report = Report(key)
        self._tried[key] = None
        if len(self._tried) > TRIED:
            del self._tried[next(iter(self._tried))]
        try:
            report.outputs = self._new_outputs()
            with report.stage("dump"):
                self._start_dump(report.outputs)
        except StageFailed as failure:
            self._failed(report, failure)
            return run()
        with report.stage("dump"):
            result = self._dumped(run)
        try:
            with files_of("look up", "the kernels' files cannot be used"):
                self._make(report, report.outputs)
        except StageFailed as failure:
            self._failed(report, failure)
        else:
            self._done(report)
        return result

    def _new_outputs(self) -> Path:
        reason = self._toolkit.conflict()
        if reason is not None:
            raise StageFailed(
                f"operators cannot be dumped: {reason}, and there is one dump for both",
                advice="set skip_first so that the profiler starts after the first call of each shape, or "
                "record_op_args=False",
                stage="dump",
            )
        with files_of("dump", "the folder of products cannot be made"):
            if self.options.limit_bytes is not None:
                _tree.prune(self.options.build_dir, self.options.limit_bytes)
                _cache.prune(self._cache_root(), self.options.limit_bytes)
            return _tree.new_outputs(self.options.build_dir)

    def _start_dump(self, outputs: Path) -> None:
        try:
            self._toolkit.start_dump(outputs)
        except RuntimeError as error:
            raise StageFailed(
                f"CANN does not dump operators: {error}",
                advice="see the CANN log",
                stage="dump",
            ) from error

    def _dumped(self, run: Callable[[], T]) -> T:
        """The run itself: its errors are the model's."""
        try:
            with presence(self._toolkit, self.options):
                return run()
        finally:
            self._toolkit.stop_dump()

    def _make(self, report: Report, outputs: Path) -> None:
        """Everything after the dump."""
        with report.stage("select"):
            selection = select(outputs, self.options.blacklist)
        report.operators, report.refused = len(selection.operators), selection.refused
        if not selection.operators:
            return
        cache = Cache(self._cache_root(), (*self._toolkit.versions(), *self._words()))
        state = state_dir("turn", str(cache.folder.resolve()))
        with turn(state, selection.operators, self.options.time_limit_s, job()) as mine:
            with report.stage("look up"):
                found = cache.look_up(selection.operators)
            report.found = report.operators - len(found.missing)
            packages = found.packages
            if found.missing:
                packages = (*packages, self._compile(report, cache, found, outputs, mine))
            self._install(report, packages, outputs)
        with report.stage("reselect"):
            library_for(self._toolkit, self.options).reselect(self._toolkit)

    def _compile(self, report: Report, cache: Cache, found: Found, outputs: Path, mine: Turn) -> Package:
        expected = cache.expected_seconds(len(found.missing))
        options = self.options
        order = _compile.Job(self._toolkit.soc, options.jobs, options.time_limit_s, self._words(), expected)
        _compile.announce(len(found.missing), order, outputs)
        mine.begin(found.missing)
        staging = cache.staging()
        log_file = outputs / _tree.LOG
        try:
            with report.stage("compile"):
                seconds = _compile.compile_operators(found.missing, order, staging, log_file)
                package = cache.publish(staging, found.missing, seconds)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        report.compiled = len(found.missing)
        counters["air"]["static kernels compiled"] += report.compiled
        return package

    def _install(self, report: Report, packages: tuple[Package, ...], outputs: Path) -> None:
        library = library_for(self._toolkit, self.options)
        report.packages = tuple(package.name for package in packages)
        with report.stage("install"):
            for package in packages:
                _put(package.run, outputs)
                report.installed += library.install(package, self._toolkit, outputs / _tree.LOG)

    def _words(self) -> tuple[str, ...]:
        return (*self._toolkit.flags, *self.options.flags)

    def _cache_root(self) -> Path:
        if not self.options.cached:
            return scratch_cache()
        return self.options.cache_dir or self.options.build_dir / _tree.CACHE

    def _done(self, report: Report) -> None:
        assert report.outputs is not None
        (report.outputs / _tree.LOG).unlink(missing_ok=True)
        self.reports.append(report)
        log.info(
            "static kernels of key %s: %d operators, %d found, %d compiled, %d refused",
            report.key, report.operators, report.found, report.compiled, len(report.refused),
        )  # fmt: skip

    def _failed(self, report: Report, failure: StageFailed) -> None:
        report.failure = failure
        self.reports.append(report)
        warnings.warn(
            f"static kernels: the model runs without them. {failure}", StaticKernelWarning, stacklevel=2
        )

    def explain(self) -> list[dict[str, Any]]:
        """What was done for each key."""
        return [report.to_dict() for report in self.reports]


def _put(installer: Path, outputs: Path) -> None:
    """Puts an installer among the products: a second name of the file in the cache, where that is possible."""
    target = outputs / installer.name
    with files_of("install", "the installer cannot be put among the products"):
        if not target.exists():
            try:
                os.link(installer, target)
            except OSError:
                shutil.copy2(installer, target)
