from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from air_aclgraph.static_kernel import StaticKernels
from air_aclgraph.static_kernel.__main__ import main
from air_aclgraph.static_kernel._tree import OUTPUTS
from static_kernel.stand_in import StandIn

Make = Callable[..., StaticKernels]


def test_products_and_cached_kernels_are_listed_and_removed(
    make: Make, cann: StandIn, build: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make().around((), cann.model("Add"))
    (mine,) = (build / OUTPUTS).iterdir()
    ended = build / OUTPUTS / "20200101000000000000_999999999_outputs"
    ended.mkdir()
    (ended / "file").write_bytes(bytes(1000))
    assert main(["list", str(build)]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in listed] == ["ended", "in", "cached"]
    assert main(["clean", str(build), "--keep-bytes", "1000000"]) == 0
    assert capsys.readouterr().out == "0 removed\n"
    assert main(["clean", str(build)]) == 0
    assert "2 removed" in capsys.readouterr().out
    assert not ended.exists()
    assert mine.exists(), f"process {os.getpid()} still runs"
    make().around((), cann.model("Add"))
    assert cann.compilations == 2


def test_a_directory_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clean", str(tmp_path / "no")]) == 1
    assert "no directory" in capsys.readouterr().err


def test_a_cache_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clean", str(tmp_path), "--cache", str(tmp_path / "no")]) == 1
    assert "no is no directory: give the kernel cache" in capsys.readouterr().err
