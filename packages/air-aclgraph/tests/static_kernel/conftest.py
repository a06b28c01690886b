"""Each test has tools, a library, a build directory and a state directory of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from air_aclgraph.static_kernel import Options, StaticKernels
from static_kernel.stand_in import StandIn, lay_out


@pytest.fixture
def cann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """A stand-in for CANN that this process's environment names."""
    tools = tmp_path / "cann"
    lay_out(tools)
    (tmp_path / "state").mkdir()
    (tmp_path / "build").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    monkeypatch.setenv("ASCEND_OPP_PATH", str(tools / "opp"))
    for name in ("RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return StandIn(tools)


@pytest.fixture
def build(tmp_path: Path) -> Path:
    return tmp_path / "build"


Make = Callable[..., StaticKernels]


@pytest.fixture
def make(cann: StandIn, build: Path) -> Make:
    """Static kernels of a new graph, in the test's build directory."""

    def made(**options: object) -> StaticKernels:
        return StaticKernels(Options(**{"build_dir": build, **options}), cann)  # type: ignore[arg-type]  # by name

    return made
