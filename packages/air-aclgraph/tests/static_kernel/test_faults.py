"""The fault matrix: whatever goes wrong, the model's result is right and one warning says what happened."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from air_aclgraph.static_kernel import BuildDirRefused, StageFailed, StaticKernels, StaticKernelWarning
from air_aclgraph.static_kernel._tree import CACHE, OUTPUTS, build_dir_of
from static_kernel.stand_in import StandIn

Make = Callable[..., StaticKernels]
FORK = multiprocessing.get_context("fork")


def fails(kernels: StaticKernels, cann: StandIn, *operators: str) -> StageFailed:
    """Runs a key in which a stage fails; the result must be right, and there must be one warning."""
    operators = operators or ("Add", "MatMul")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert kernels.around(("key",), cann.model(*operators)) == operators
    (warning,) = (w for w in caught if w.category is StaticKernelWarning)
    failure = kernels.reports[-1].failure
    assert failure is not None
    assert str(failure) in str(warning.message)
    assert "the model runs without them" in str(warning.message)
    return failure


def succeeds(kernels: StaticKernels, cann: StandIn, *operators: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernels.around((), cann.model(*(operators or ("Add", "MatMul"))))
    assert kernels.reports[-1].failure is None


def test_a_missing_compiler_is_named(make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    failure = fails(make(), cann)
    assert (failure.stage, failure.command) == ("compile", "op_compiler")
    assert "set_env.sh" in failure.advice


@pytest.mark.parametrize("code", [1, 2, 255])
def test_an_exit_code_is_reported_with_command_and_log(
    make: Make, cann: StandIn, build: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setenv("STAND_IN_EXIT", str(code))
    failure = fails(make(), cann)
    assert (failure.stage, failure.exit_code) == ("compile", code)
    assert f"{cann.folder}/op_compiler -p " in failure.command
    assert Path(failure.log).read_text() == "the compiler speaks\nan arranged failure\n"
    assert Path(failure.log).parent.parent == build / OUTPUTS
    for part in ("compile", str(code), failure.command, failure.log, "an arranged failure"):
        assert part in str(failure)


def test_N17_a_failed_operator_is_tried_again_next_time_and_not_marked_done(
    make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_EXIT", "1")
    kernels = make()
    fails(kernels, cann)
    monkeypatch.delenv("STAND_IN_EXIT")
    succeeds(kernels, cann)
    assert [r.compiled for r in kernels.reports] == [0, 2]


def test_a_compiler_that_is_killed_is_reported_by_the_signal(make: Make, cann: StandIn) -> None:
    tool = cann.folder / "op_compiler"
    tool.write_text("#!/bin/sh\nkill -9 $$\n")
    failure = fails(make(), cann)
    assert "killed by SIGKILL" in failure.what
    assert failure.exit_code == -9


def test_a_compiler_that_is_no_program_is_reported(make: Make, cann: StandIn) -> None:
    (cann.folder / "op_compiler").write_text("#!/no/such/interpreter\n")
    assert "cannot be started" in fails(make(), cann).what


def test_a_compiler_that_takes_too_long_is_ended_with_what_it_started(
    make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubborn = "sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' &"
    (cann.folder / "op_compiler").write_text(f"#!/bin/sh\n{stubborn}\necho $! > {cann.folder}/child\nwait\n")
    started = time.monotonic()
    failure = fails(make(time_limit_s=0.5), cann)
    assert "ended after 0.5 s" in failure.what
    assert "time_limit_s" in failure.advice
    assert time.monotonic() - started < 30
    child = Path(f"/proc/{(cann.folder / 'child').read_text().strip()}/stat")
    while not ended(child):
        assert time.monotonic() - started < 30
        time.sleep(0.02)


def ended(stat: Path) -> bool:
    """Whether a process is gone, or dead and not yet waited for by whoever inherited it."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_compiler_that_writes_nothing_is_reported(
    make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_NOTHING", "1")
    assert "wrote no .run file" in fails(make(), cann).what


def test_a_disk_that_is_full_for_the_compiler_is_reported_by_its_own_words(
    make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_FULL", "1")
    failure = fails(make(), cann)
    assert failure.exit_code == 28
    assert "No space left" in str(failure)


@pytest.mark.parametrize(
    ("where", "stage"),
    [
        ("shutil.copyfile", "compile"),
        ("os.replace", "look up"),
        ("shutil.copy2", "install"),
        ("pathlib.Path.mkdir", "dump"),
    ],
)
def test_a_disk_that_is_full_for_this_process_fails_the_stage_at_hand(
    make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch, where: str, stage: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "the file")

    kernels = make()
    with monkeypatch.context() as patched:
        patched.setattr(where, full)
        patched.setattr(os, "link", full)
        failure = fails(kernels, cann)
    assert failure.stage == stage
    assert "free space" in failure.advice
    succeeds(kernels, cann)


@pytest.mark.parametrize("given", ["/proc/no/such", "/proc", "/etc/passwd", "/etc/passwd/below"])
def test_S09_a_build_directory_that_cannot_be_used_is_an_error_before_any_work(given: str) -> None:
    with pytest.raises(BuildDirRefused, match="_build_dir") as raised:
        build_dir_of(given)
    assert raised.value.directory == given


def test_S09_a_build_directory_that_is_not_there_is_made(tmp_path: Path) -> None:
    assert build_dir_of(str(tmp_path / "a/b")) == tmp_path / "a/b"
    assert (tmp_path / "a/b").is_dir()


def test_S09_a_build_directory_that_becomes_useless_fails_a_stage(
    make: Make, cann: StandIn, build: Path
) -> None:
    kernels = make()
    shutil.rmtree(build)
    assert fails(kernels, cann).stage == "dump"
    assert cann.compilations == 0


def test_a_cache_directory_that_cannot_be_written_fails_a_stage(make: Make, cann: StandIn) -> None:
    assert fails(make(cache_dir=Path("/proc/self")), cann).stage == "look up"


@pytest.mark.parametrize(
    "damage", ["installer", "installer gone", "manifest", "manifest gone", "manifest empty"]
)
def test_a_damaged_cache_entry_is_compiled_again(make: Make, cann: StandIn, build: Path, damage: str) -> None:
    succeeds(make(), cann)
    (manifest,) = (build / CACHE).glob("*/*/manifest.json")
    (installer,) = manifest.parent.glob("*.run")
    file = installer if damage.startswith("installer") else manifest
    contents = {"installer": b"#!/bin/sh\nexit 0", "manifest": b'{"run":', "manifest empty": b"{}"}
    file.unlink()
    if damage in contents:
        file.write_bytes(contents[damage])
    again = make()
    succeeds(again, cann)
    assert (again.reports[0].compiled, cann.compilations) == (2, 2)


@pytest.mark.parametrize("hole", ["build", "cache"])
def test_an_installer_that_others_could_have_changed_is_not_run(
    make: Make, cann: StandIn, build: Path, hole: str
) -> None:
    (build / CACHE).mkdir()
    place = build if hole == "build" else build / CACHE
    place.chmod(0o777)
    failure = fails(make(), cann)
    assert failure.stage == "install"
    assert f"{place} others may write to it" in str(failure)
    assert "air.static_kernel.cache_dir" in failure.advice
    assert cann.installed_packages() == []
    place.chmod(0o755)
    succeeds(make(), cann)


def test_an_installer_that_fails_half_way_leaves_nothing_behind(
    make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_INSTALL_FAIL", "3")
    kernels = make()
    failure = fails(kernels, cann)
    assert (failure.stage, failure.exit_code) == ("install", 3)
    assert "half of it" in str(failure)
    assert cann.installed_packages() == []
    assert cann.selections == []
    monkeypatch.delenv("STAND_IN_INSTALL_FAIL")
    succeeds(make(), cann)
    assert (cann.compilations, cann.selections) == (1, [2])


def test_an_installer_that_installs_elsewhere_is_reported(
    make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cann, "library", lambda: tmp_path / "another")
    assert "ASCEND_OPP_PATH" in fails(make(), cann).advice


def test_a_library_that_nothing_names_is_reported(
    make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASCEND_OPP_PATH")
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    failure = fails(make(), cann)
    assert failure.stage == "install"
    assert "ASCEND_HOME_PATH" in failure.what


def test_a_selection_that_cann_refuses_is_reported(
    make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("no such symbol")

    monkeypatch.setattr(cann, "reselect", refuse)
    assert fails(make(), cann).stage == "reselect"


def test_S12_a_profiler_that_records_arguments_is_reported(make: Make, cann: StandIn) -> None:
    cann.busy = "a profiler is recording"
    failure = fails(make(), cann)
    assert failure.stage == "dump"
    assert "skip_first" in failure.advice
    assert cann.compilations == 0


def killed(work: Callable[[], object], when: Callable[[], bool]) -> None:
    """Does the work in a process of its own and kills that when the time has come."""
    child = FORK.Process(target=work)
    child.start()
    deadline = time.monotonic() + 30
    while not when():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()


def test_a_process_killed_while_it_compiles_leaves_a_cache_that_works(
    make: Make, cann: StandIn, build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_SLEEP", "3")
    killed(lambda: make().around((), cann.model("Add", "MatMul")), lambda: cann.compilations == 1)
    monkeypatch.delenv("STAND_IN_SLEEP")
    succeeds(make(), cann)
    assert list((build / CACHE).glob("*/.staging-*")) == []
    assert cann.selections == [2]


def test_a_process_killed_while_it_installs_leaves_nothing_half_installed(
    make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_INSTALL_SLEEP", "3")
    killed(lambda: make().around((), cann.model("Add", "MatMul")), lambda: cann.installations == 1)
    monkeypatch.delenv("STAND_IN_INSTALL_SLEEP")
    other = make()
    succeeds(other, cann, "Sub", "Mul", "Div")
    assert cann.selections == [3], "what the killed process left was removed before anything was read"
