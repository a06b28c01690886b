"""Environments of sessions: thin ones, over a base with torch that is installed once.

torch is installed once, into a base environment, and so is every library that packages or their tests declare, each
into a folder of its own; every session is a thin environment that sees, through a `.pth` file, the base and those of
the libraries that the package under test declares. A lock for each folder lets several runs of nox share them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import nox

from house.interpreters import interpreter
from house.packages import ROOT, declared_libraries, with_tests

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
TORCH = "torch==2.13.0"
TORCH_NPU = "torch_npu==2.13.0"
# the wheel does not declare them
TORCH_NPU_NEEDS = ("numpy", "pyyaml", "decorator", "psutil", "scipy", "attrs", "protobuf")
TOOLS = (
    "pip>=25",
    "hatchling>=1.27",
    "editables",
    "pytest>=8",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.6",
    "mypy>=1.15",
)
ENV = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
NPU_ENV = {"OMP_NUM_THREADS": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}  # whatever the caller has set
#: A line of a `.pth` file, which every Python of an environment runs first. The tests start hundreds of processes, and
#: the usual 700 new objects are few for one that imports torch: a sixth of that time was spent searching for cycles.
FEWER_SEARCHES = "import gc; gc.set_threshold(20_000, 20, 100)"
#: Of the modules of torch and transformers most are never imported: Python compiles those that are, once.
WITHOUT_BYTECODE = "--no-compile"
#: The base's pip serves; a stock setuptools would shadow the one torch asks for.
WITHOUT_PIP = ["--without-pip"]


def other_pythons() -> list[str]:
    """Those that AIR supports, but the one that runs this."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    return [python for python in PYTHONS if python != own]


def reveal_interpreters() -> None:
    """Where pyenv hides all interpreters but one, shows all of them, the one in use first."""
    if not shutil.which("pyenv"):
        return
    listed = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True).stdout.split()
    wanted = [v for v in listed if v.startswith(tuple(f"{p}." for p in PYTHONS))]
    here = ".".join(map(str, sys.version_info[:3]))
    wanted.sort(key=lambda version: version != here)
    if here in wanted:
        os.environ["PYENV_VERSION"] = ":".join(wanted)


def site_of(prefix: Path | str) -> Path:
    return Path(sysconfig.get_path("purelib", vars={"base": str(prefix)}))


@contextlib.contextmanager
def alone(what: Path) -> Iterator[None]:
    """One process at a time makes `what`: `prepare` may be at it, in the background."""
    what.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def once(folder: Path) -> Iterator[bool]:
    """Whether `folder` still has to be filled; it counts as filled when the block ends without an error."""
    with alone(folder):
        missing = not (folder / "complete").exists()
        if missing:
            shutil.rmtree(folder, ignore_errors=True)
        yield missing
        (folder / "complete").touch()


def base(session: nox.Session, torch: str = TORCH) -> Path:
    """Installs torch and the tools once; returns that environment."""
    key = hashlib.sha256("\n".join((interpreter(), torch, *TOOLS)).encode()).hexdigest()[:12]
    prefix = Path(os.environ.get("AIR_TORCH_ENV", ROOT / ".nox")) / f"torch-{key}"
    with once(prefix) as missing:
        if missing:
            make = (sys.executable, "-m", "virtualenv", "-q", "-p", interpreter(), str(prefix))
            session.run_install(*make, external=True)
            pip = (str(prefix / "bin/python"), "-m", "pip", "install", "-q", "-U", WITHOUT_BYTECODE)
            session.run_install(*pip, torch, *TOOLS, external=True)
    return prefix


def npu_base(session: nox.Session) -> Path:
    """Installs torch_npu once, beside the torch of the base; returns the folder it lies in."""
    python = base(session) / "bin/python"
    site = python.parents[1] / "torch_npu"
    with once(site) as missing:
        if missing:
            pip = (str(python), "-m", "pip", "install", "-q", WITHOUT_BYTECODE, "--target", str(site))
            session.run_install(*pip, "--no-deps", TORCH_NPU, external=True, env=ENV)
            session.run_install(*pip, *TORCH_NPU_NEEDS, external=True, env=ENV)
    return site


def library(session: nox.Session, requirement: str) -> Path:
    """Installs a library, with what it needs and the base lacks, once; returns the folder it lies in."""
    prefix = base(session)
    folder = prefix / "libraries" / requirement
    site = site_of(folder)
    with once(folder) as missing:
        if missing:
            session.run_install(interpreter(), "-m", "venv", *WITHOUT_PIP, str(folder), external=True)
            (site / "air-base.pth").write_text(f"{site_of(prefix)}\n")
            pip = (str(prefix / "bin/python"), "-m", "pip", "--python", str(folder / "bin/python"))
            # torchvision, say, fits one torch only: the version for this one
            wanted = (requirement, TORCH)
            session.run_install(*pip, "install", "-q", WITHOUT_BYTECODE, *wanted, external=True, env=ENV)
    return site


def see(session: nox.Session, *sites: Path) -> None:
    """Lets the session's environment import what lies in other folders."""
    lines = "".join(f"{line}\n" for line in (FEWER_SEARCHES, *sites))
    (site_of(session.virtualenv.location) / "air-base.pth").write_text(lines)


def editable_wheel(session: nox.Session, source: str, prefix: Path) -> str:
    """The wheel that makes a package editable (`packages/air-config[test]`), which is made once for all sessions."""
    folder, bracket, extras = source.partition("[")
    files = (ROOT / folder / "pyproject.toml", *sorted((ROOT / folder).glob("src/*/_version.py")))
    key = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    target = ROOT / ".nox" / "editable" / f"{Path(folder).name}-{key}"
    with once(target) as missing:
        if missing:
            make = (str(prefix / "bin/python"), "-m", "hatchling", "build", "-t", "wheel:editable")
            with session.chdir(ROOT / folder):
                session.run_install(*make, "-d", str(target), external=True, silent=True, env=ENV)
    (wheel,) = target.glob("*.whl")
    return f"{wheel}{bracket}{extras}"


def _quickly(session: nox.Session, what: Sequence[str], prefix: Path) -> list[str]:
    """pip's arguments, where the sources of packages are replaced by wheels that are there already.

    Not in an environment that is used again: pip would keep what an earlier wheel of the same version declares.
    """
    words = list(what)
    if not any(site_of(session.virtualenv.location).glob("air_*.dist-info")):
        for at in [at for at, word in enumerate(words) if word == "-e"]:
            words[at : at + 2] = ["", editable_wheel(session, words[at + 1], prefix)]
    return ["-q", "--no-build-isolation", *filter(None, words)]


def install(session: nox.Session, *what: str, torch: str = TORCH) -> None:
    """Makes importable: torch, the tools, and `what` with what it declares."""
    prefix = base(session, torch)
    see(session, site_of(prefix))
    session.install(*_quickly(session, what, prefix))


def install_beside_npu(session: nox.Session, *what: str) -> None:
    """The same with torch_npu in sight, which does not load while pip runs."""
    install_over(session, [npu_base(session)], *what)


def install_over(session: nox.Session, sites: Iterable[Path], *what: str) -> None:
    """The same over folders with libraries."""
    prefix = base(session)
    see(session, site_of(prefix), *sites)
    session.install(*_quickly(session, what, prefix), env=ENV)


def install_tested(session: nox.Session, package: str, *beside: Path, also: Sequence[str] = ()) -> None:
    """Makes importable: torch, the tools, and a package with what it and its tests declare."""
    libraries = (library(session, text) for text in declared_libraries(package))
    install_over(session, (*beside, *libraries), *with_tests(package), *also)


def browser(session: nox.Session) -> None:
    """Installs Chromium where that takes no more than Debian's package; tests of pictures skip without one."""
    with alone(ROOT / ".nox" / "chromium"):
        if any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")):
            return
        if not shutil.which("apt-get") or os.geteuid() != 0:
            session.warn("no Chromium on PATH: the tests that open pictures in a browser are skipped")
            return
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        session.run("apt-get", "update", "-q", external=True, silent=True, env=quiet, success_codes=[0, 100])
        package = ("install", "-y", "-q", "--no-install-recommends", "chromium")
        session.run("apt-get", *package, external=True, silent=True, env=quiet)
