"""The sessions of what users get: wheels, a release, the demo, and the examples."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import nox

from house.environments import (
    ENV,
    NPU_ENV,
    base,
    install,
    install_beside_npu,
    install_over,
    library,
    see,
    site_of,
)
from house.newcomer import from_sdist, newcomer
from house.packages import PACKAGES, ROOT, declared_libraries, editable
from house.sessions.running import WORKERS

RELEASE_NEEDS: Final = ("hatchling>=1.27", "twine>=6", "check-wheel-contents>=0.6", "cyclonedx-bom>=7")
EXAMPLES_NEED: Final = ("transformers>=4.50", "numpy")
NOTEBOOKS_NEED: Final = ("nbclient>=0.10", "nbformat>=5.10", "ipykernel>=6.29")


def build(session: nox.Session) -> None:
    """One wheel per package into dist/."""
    install(session, "hatchling>=1.27")
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    for package in PACKAGES:
        wheel = ("python", "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", "dist")
        session.run(*wheel, f"packages/{package}", env=ENV)


def install_wheels(session: nox.Session) -> None:
    """A newcomer's path, outside of the checkout: the wheels of dist/, then doctor, demo and the quick start."""
    install(session, "--find-links", "dist", "--no-cache-dir", "air-backend")
    session.run("python", "-m", "pip", "check", env=ENV)
    newcomer(session, forked=True)


def tools_and(session: nox.Session, wanted: Sequence[str]) -> list[Path]:
    """The folders of the release's tools and of other libraries."""
    return [library(session, text) for text in (*RELEASE_NEEDS, *wanted)]


def release(session: nox.Session) -> None:
    """What is published, in dist/: built, looked into, installed, used, tested; sums and a bill of materials beside it.

    `-- --publishable` also refuses addresses that are placeholders.
    """
    see(session, site_of(base(session)), *tools_and(session, ()))
    session.run("python", "-m", "house.project", *session.posargs)
    session.run("python", "-m", "house.translations", "--strict")
    session.run("python", "-m", "house.release", "build")
    session.run("python", "-m", "house.release", "check")
    built = sorted(str(path) for path in (ROOT / "dist").iterdir())
    session.run("python", "-m", "twine", "check", "--strict", *built)
    session.run("python", "-m", "check_wheel_contents", *(path for path in built if path.endswith(".whl")))
    session.install("-q", "--no-index", "--no-deps", "--find-links", "dist", "--no-cache-dir", *PACKAGES)
    wanted = (*declared_libraries(*PACKAGES), "protobuf>=3.20")
    see(session, site_of(base(session)), *tools_and(session, wanted))
    session.run("python", "-m", "pip", "check", env=ENV)
    pinned = ROOT / "build" / "pinned.txt"
    pinned.write_text(str(session.run("python", "-m", "house.release", "pins", silent=True, env=ENV)))
    bill = ("--output-reproducible", "-o", "dist/sbom.cdx.json", str(pinned))
    session.run("python", "-m", "cyclonedx_py", "requirements", *bill)
    session.run("python", "-m", "house.release", "sums")
    newcomer(session)
    from_sdist(session, "air-config", "air-streams", options=WORKERS)


def demo(session: nox.Session) -> None:
    """The main job: a tiny Llama in eager, run-eagerly, reduce-overhead and max-autotune, compared."""
    if "--sim" in session.posargs:
        install_beside_npu(session, *editable("air-backend", "air-sim"))
        session.run("air", "demo", *session.posargs, env=NPU_ENV)
        return
    install(session, *editable("air-backend"))
    session.run("air", "demo", *session.posargs, env=ENV)


def examples(session: nox.Session) -> None:
    """The examples but for those that take longest, as forks of one process with torch; and every notebook."""
    needed = (*EXAMPLES_NEED, *NOTEBOOKS_NEED)
    install_over(session, (library(session, text) for text in needed), *editable("air-backend"))
    session.run("python", "-m", "house.examples", "--quick", "--forked", *session.posargs, env=ENV)
    session.run("python", "-m", "house.examples", "--notebooks", env=ENV)


def examples_all(session: nox.Session) -> None:
    """Every example as its README says, in processes of their own."""
    install_over(session, (library(session, text) for text in EXAMPLES_NEED), *editable("air-backend"))
    session.run("python", "-m", "house.examples", env=ENV)


def examples_sim(session: nox.Session) -> None:
    """The examples that want air-sim."""
    install_beside_npu(session, *editable("air-backend", "air-sim"))
    session.run("python", "-m", "house.examples", "--sim", env=NPU_ENV)
