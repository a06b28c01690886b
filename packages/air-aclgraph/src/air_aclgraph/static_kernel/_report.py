"""What one run of the pipeline did: for `explain()`, for the log, for tests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from air_aclgraph._key import Key
from air_aclgraph.static_kernel.errors import StageFailed


@dataclass
class Report:
    """The record of one shape key; filled in as the stages go."""

    key: Key
    outputs: Path | None = None
    operators: int = 0
    """Distinct operators that can be compiled."""
    refused: tuple[tuple[str, str], ...] = ()
    """Operators that are not compiled, each with the reason."""
    found: int = 0
    """Operators whose kernels were installed by this process, or lay in the cache."""
    compiled: int = 0
    packages: tuple[str, ...] = ()
    installed: int = 0
    """Packages whose installer this process has run."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Time per stage; the dump includes the run of the model."""
    failure: StageFailed | None = None

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Times a stage."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    def to_dict(self) -> dict[str, Any]:
        """The record as plain values."""
        return {
            "key": self.key,
            "outputs": None if self.outputs is None else str(self.outputs),
            "operators": self.operators,
            "refused": [f"{name}: {reason}" for name, reason in self.refused],
            "found": self.found,
            "compiled": self.compiled,
            "packages": list(self.packages),
            "installed": self.installed,
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "failure": None if self.failure is None else str(self.failure),
        }
