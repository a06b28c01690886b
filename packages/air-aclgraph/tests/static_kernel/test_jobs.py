from __future__ import annotations

import os
from pathlib import Path

import pytest

from air_aclgraph.static_kernel._jobs import available_jobs


@pytest.fixture(autouse=True)
def _sixteen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_without_a_quota_it_is_the_affinity_mask(tmp_path: Path) -> None:
    assert available_jobs(tmp_path, tmp_path / "cgroup") == 16
    write(tmp_path / "cpu.max", "max 100000\n")
    assert available_jobs(tmp_path, tmp_path / "cgroup") == 16


@pytest.mark.parametrize(("quota", "jobs"), [("400000", 4), ("150000", 2), ("10000", 1), ("9900000", 16)])
def test_a_quota_of_the_control_group_bounds_it(tmp_path: Path, quota: str, jobs: int) -> None:
    write(tmp_path / "cpu.max", f"{quota} 100000\n")
    assert available_jobs(tmp_path, tmp_path / "cgroup") == jobs


def test_the_tightest_group_above_this_process_counts(tmp_path: Path) -> None:
    write(tmp_path / "cgroup", "0::/outer/inner\n")
    write(tmp_path / "outer" / "cpu.max", "300000 100000\n")
    write(tmp_path / "outer" / "inner" / "cpu.max", "800000 100000\n")
    assert available_jobs(tmp_path, tmp_path / "cgroup") == 3


def test_the_first_version_of_control_groups_is_read_too(tmp_path: Path) -> None:
    write(tmp_path / "cgroup", "4:cpu,cpuacct:/job\n2:memory:/job\n")
    write(tmp_path / "cpu,cpuacct" / "job" / "cpu.cfs_quota_us", "200000\n")
    write(tmp_path / "cpu,cpuacct" / "job" / "cpu.cfs_period_us", "100000\n")
    assert available_jobs(tmp_path, tmp_path / "cgroup") == 2
