"""The sessions that CI has no time for: random programs, slow tests, older versions of torch, the zoo."""

from __future__ import annotations

import sys
from typing import Final

import nox

from house.accelerator import TESTED as ACCELERATED
from house.environments import (
    ENV,
    NPU_ENV,
    TOOLS,
    TORCH,
    base,
    install,
    install_beside_npu,
    install_tested,
    library,
    npu_base,
    see,
    site_of,
)
from house.packages import NPU_TESTED, OLDER_TORCHES, ROOT, TORCH_TESTED, editable, with_tests
from house.sessions.running import in_turn, pytest

FOLDER: Final = "packages/air-backend/tests/fuzz"
FUZZ: Final = {
    "modes": f"{FOLDER}/test_modes.py",
    "ways": f"{FOLDER}/test_ways.py",
    "options": f"{FOLDER}/test_options.py",
    "operators": f"{FOLDER}/test_every_operator.py",
    "modules": f"{FOLDER}/test_every_module.py",
    "tables": f"{FOLDER}/test_torchs_tables.py",
    "sizes": f"{FOLDER}/test_unknown_sizes.py",
    "errors": f"{FOLDER}/test_errors.py",
    "interrupts": f"{FOLDER}/test_interrupts.py",
    "documents": f"{FOLDER}/test_documented_examples.py",
    "surroundings": f"{FOLDER}/test_surroundings.py",
    "derivatives": f"{FOLDER}/test_second_derivatives.py",
    "transforms": f"{FOLDER}/test_transforms.py",
    "generations": f"{FOLDER}/test_generations.py",
    "passes": "packages/air-fxpasses/tests/fuzz",
}
ZOO: Final = ("diffusers>=0.42", "timm>=1.0")  # libraries of models, beside the one that tests declare


def sim_opinfo(session: nox.Session) -> None:
    """torch's operator database on the npu device of air-sim; AIR_SIM_OPINFO=full takes every sample."""
    install_beside_npu(session, *with_tests("air-sim"))
    pytest(session, "--sim", "packages/air-sim/tests/ops/test_opinfo.py", env=NPU_ENV)


def sim_sanitize(session: nox.Session) -> None:
    """The C++ tests of air-sim's runtime under the thread and the address sanitizer."""
    install_beside_npu(session, *editable("air-sim"))
    for sanitizer in session.posargs or ("thread", "address"):
        session.run("python", "packages/air-sim/tests/native/sanitize.py", sanitizer, env=ENV)


def random_programs(
    session: nox.Session, tests: str, count: int, *arguments: str, env: dict[str, str]
) -> None:
    """The random programs of a file or folder of tests: as many as the session says, or as it was asked for."""
    where = ("python", "-m", "pytest", "-q", tests, "--fuzz-programs", str(count))
    quiet = ("-n", "2", "-p", "no:logging")  # captured logs would fill the memory
    session.run(*where, *quiet, *arguments, env=env)


def asked_programs(session: nox.Session) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """How many programs a mode shall run, their first seed and which kinds: `-- 500 7 ways`; else all 20,000 from 0."""
    count, seed, *kinds = (*session.posargs, *("20000", "0")[len(session.posargs) :])
    if unknown := [kind for kind in kinds if kind not in FUZZ]:
        session.error(f"there are no random programs called {', '.join(unknown)}: {', '.join(FUZZ)}")
    return int(count), ("--fuzz-seed", seed), tuple(kinds) or tuple(FUZZ)


def fuzz(session: nox.Session) -> None:
    """Random programs: 20,000 a mode, 100,000 for the passes; `-- 500 7 ways` runs 500 of one kind, from seed 7 on."""
    install(session, *with_tests("air-fxpasses"), *with_tests("air-backend"))
    count, seed, kinds = asked_programs(session)
    for kind in kinds:
        if kind == "passes":
            random_programs(session, FUZZ[kind], 5 * count, env=ENV)
        else:
            random_programs(session, FUZZ[kind], count, "-m", "not npu", *seed, env=ENV)


def npu_fuzz(session: nox.Session) -> None:
    """2,000 random programs a mode on the real torch_npu over air-sim; `-- 500 7` runs 50, from seed 7 on."""
    install_beside_npu(session, *with_tests("air-backend"), *editable("air-sim"))
    reported_once = {"AIR_SIM_STICKY": "0"}  # what eager refuses must not end what follows it
    count, seed, _ = asked_programs(session)
    random_programs(session, FOLDER, count, "--sim", "-m", "npu", *seed, env=NPU_ENV | reported_once)


def slow(session: nox.Session) -> None:
    """The tests marked `slow` of every package, on the CPU; `-- packages/air-aclgraph/tests` runs those of one."""
    install(session, *(word for package in TORCH_TESTED for word in with_tests(package)))
    in_turn(session, TORCH_TESTED, "-m", "slow and not npu", env=ENV)


def npu_slow(session: nox.Session) -> None:
    """The tests marked `slow` of every package, on the real torch_npu over air-sim; paths after `--` run fewer."""
    install_beside_npu(session, *(word for package in NPU_TESTED for word in with_tests(package)))
    in_turn(session, NPU_TESTED, "--sim", "-m", "slow and npu", env=NPU_ENV)


NPU_SETTINGS: Final = {
    "blocking": {"ASCEND_LAUNCH_BLOCKING": "1"},
    "queue-0": {"TASK_QUEUE_ENABLE": "0"},
    "expandable": {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"},
}
"""What users of torch_npu set for a whole process, by the name that the session is given."""


@nox.parametrize("setting", list(NPU_SETTINGS))
def npu_settings(session: nox.Session, setting: str) -> None:
    """The tests of what runs on a device, on air-sim under a setting of torch_npu; paths after `--` run fewer."""
    packages = [package for package in NPU_TESTED if package != "air-sim"]
    install_beside_npu(session, *(word for package in NPU_TESTED for word in with_tests(package)))
    env = NPU_ENV | NPU_SETTINGS[setting]
    in_turn(session, packages, "--sim", "-m", "npu and not slow", env=env)


def long(session: nox.Session) -> None:
    """Long sessions in rotation, the one green longest ago first; `-- --minutes 120` is the time there is."""
    session.run(sys.executable, "-m", "house.long", *session.posargs)


@nox.parametrize("torch", OLDER_TORCHES)
def older_torch(session: nox.Session, torch: str) -> None:
    """The tests that need no device, of every package, on an older torch that AIR supports."""
    install(
        session, *(word for package in TORCH_TESTED for word in with_tests(package)), torch=f"torch=={torch}"
    )
    in_turn(session, TORCH_TESTED, "-m", "not npu and not slow", env=ENV)


def other_python(session: nox.Session) -> None:
    """The tests that need no device, of every package with torch, on another Python that AIR supports."""
    session.install("-q", TORCH, *TOOLS)
    tests = (word for package in TORCH_TESTED for word in with_tests(package))
    session.install("-q", "--no-build-isolation", *tests, env=ENV)
    in_turn(session, TORCH_TESTED, "-m", "not npu and not slow", env=ENV)


def accelerator(session: nox.Session) -> None:
    """The tests for accelerators, on the NPU or CUDA device that is here, else on air-sim; `-- --keep` keeps counts."""
    python = str(base(session) / "bin/python")
    asked = (python, "-c", "import torch; print(torch.cuda.is_available())")
    has_gpu = str(session.run(*asked, silent=True, external=True, env=ENV)).strip() == "True"
    tests = [word for package in ACCELERATED for word in with_tests(package)]
    if has_gpu:
        install(session, *tests)
    else:
        install_beside_npu(session, *tests, *editable("air-sim"))
    session.run("python", "-m", "house.accelerator", *session.posargs, env=ENV if has_gpu else NPU_ENV)


def zoo(session: nox.Session) -> None:
    """Tiny random models of every architecture in both modes, judged by eager; `-- --help` says what can be asked."""
    simulated = "sim" in session.posargs
    beside = [npu_base(session)] if simulated else []
    beside += [library(session, text) for text in ZOO]
    install_tested(session, "air-backend", *beside, also=editable("air-sim"))
    session.chdir("packages/air-backend/tests")
    start = ("air-sim", "run") if simulated else ()
    session.run(*start, "python", "-m", "zoo", *session.posargs, env=NPU_ENV if simulated else ENV)


def clients(session: nox.Session) -> None:
    """Tests of TorchAir and torch_npu, and vLLM-Ascend's compilation, from checkouts: `-- --torchair PATH` and more."""
    install_beside_npu(session, *with_tests("air-backend"), *editable("air-sim"))
    session.run("python", "-m", "house.clients", *session.posargs, env=NPU_ENV)


def scoreboard(session: nox.Session) -> None:
    """Benchmarks beside other compilers, as JSON and one page; `-- --quick` takes minutes and keeps nothing."""
    install(session, *with_tests("air-backend"), *editable("air-sim"))
    for ground in ("cpu", "cuda", "sim"):
        if ground == "sim":  # only now: transformers imports a torch_npu that it finds
            see(session, site_of(base(session)), npu_base(session))
        env = (NPU_ENV if ground == "sim" else ENV) | {"PYTHONPATH": str(ROOT)}
        session.run("python", "-m", "house.scoreboard", "--measure", ground, *session.posargs, env=env)
