"""The binding in C++ to the Graph Engine's own session, compiled by the user's compiler when it is first needed.

It has two halves, because the engine and torch may be built with different layouts of C++ strings: `library` is linked
to the `libge_runner.so` of this machine, `calls` to torch and torch_npu. Both are kept in torch's cache folder, by the
contents of their sources and what they are linked to. Nothing is loaded from a folder that another user can write to:
the binding is then compiled for this process alone.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

import torch
from torch._inductor.runtime.cache_dir_utils import cache_dir

from air_config.trust import Untrusted, why_untrusted
from air_geir.errors import EngineUnavailableError

Loaded = TypeVar("Loaded")
_FOLDER: Final = Path(__file__).parent
LIBRARY: Final = "libge_runner.so"
_SWITCHES: Final = ("-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,--allow-shlib-undefined")


@dataclass(frozen=True)
class _Half:
    """A library of ours, and of what it is made."""

    name: str
    sources: tuple[str, ...]
    """The first is compiled; the others are what it includes of ours."""
    of: str
    """What it is linked to, in words."""
    switches: tuple[str, ...]

    def file_name(self) -> str:
        """Differs for other sources, libraries and Pythons."""
        content = b"".join((_FOLDER / source).read_bytes() for source in self.sources)
        facts = (*self.switches, platform.machine(), sys.implementation.cache_tag, torch.__version__)
        name = hashlib.sha256(content + "\0".join(map(str, facts)).encode()).hexdigest()[:16]
        return f"{self.name}_{name}.so"


def runner() -> Path | None:
    """Where the loader finds the Graph Engine; None where it does not."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return None
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = (line.split(maxsplit=5)[5] for line in lines if line.endswith(f"/{LIBRARY}"))
    return next((Path(path) for path in paths), None)


def compiler() -> str | None:
    """The C++ compiler of this machine."""
    return shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")


def missing() -> tuple[str, str] | None:
    """What is needed to compile the binding and is not there, and what to do about it."""
    if compiler() is None:
        return "no C++ compiler was found (CXX, g++, clang++)", "install g++, or set CXX"
    if not (_python_headers() / "Python.h").is_file():
        return f"Python's headers are not in {_python_headers()}", "install them, for example python3-dev"
    return None


def library(engine: Path) -> ctypes.CDLL:
    """The half that knows the Graph Engine: functions of C."""
    # What the binding calls lies in this library and in those it needs.
    linked = ("-Wl,--no-as-needed", str(engine.resolve()))
    switches = ("-std=c++17", "-D_GLIBCXX_USE_CXX11_ABI=0", *_torch_npu_headers(), *linked)
    half = _Half("session", ("session.cpp", "session.h", "call.h"), str(engine), switches)
    return _loaded(half, lambda path: ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL))


def calls() -> Any:
    """The half that knows torch: a module with `call` and `run`."""
    ours, theirs = Path(torch.__file__).parent, _torch_npu()
    linked = [f"-L{folder / 'lib'}" for folder in (ours, theirs)]
    linked.extend(f"-l{name}" for name in ("c10", "torch_cpu", "torch_python", "torch_npu"))
    headers = (f"-I{ours / 'include'}", *_torch_npu_headers(), f"-I{_python_headers()}")
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    switches = ("-std=c++20", abi, *headers, "-Wl,--no-as-needed", *linked)
    half = _Half("calls", ("calls.cpp", "call.h"), f"torch {torch.__version__} and torch_npu", switches)
    return _loaded(half, partial(extension_module, "air_geir.engines.native.calls"))


def extension_module(name: str, path: Path) -> ModuleType:
    """The compiled module in a file, under this name."""
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _loaded(half: _Half, load: Callable[[Path], Loaded]) -> Loaded:
    name = half.file_name()
    kept = Path(cache_dir()) / "air_geir" / name
    try:
        if not kept.exists():
            _build(half, kept)
        refusal = why_untrusted(kept)
    except OSError as error:
        refusal = Untrusted(str(kept), str(kept.parent), str(error))
    if refusal is None:
        return _tried(half, kept, load)
    with tempfile.TemporaryDirectory(prefix="air_geir_") as folder:
        _build(half, Path(folder) / name)
        return _tried(half, Path(folder) / name, load)


def _tried(half: _Half, path: Path, load: Callable[[Path], Loaded]) -> Loaded:
    try:
        return load(path)
    except (OSError, ImportError) as error:
        raise EngineUnavailableError(
            f"{half.of} is of a version that this binding does not fit: {error}",
            advice="use a CANN that this torch_npu supports, or engine='torchair_extension'",
        ) from error


def _build(half: _Half, target: Path) -> None:
    """Compiles into a file of its own and renames it, so that no process reads half a library.

    The ranks of a job begin together: one compiles, and the others wait for it.
    """
    if lack := missing():
        raise EngineUnavailableError(lack[0], advice=lack[1])
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone_in(target.parent), tempfile.TemporaryDirectory(dir=target.parent) as folder:
        if target.exists():
            return
        made = Path(folder) / target.name
        command = [
            str(compiler()),
            *_SWITCHES,
            str(_FOLDER / half.sources[0]),
            *half.switches,
            "-o",
            str(made),
        ]
        _run(command, half)
        made.chmod(0o700)
        made.replace(target)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """One process or thread at a time; the kernel frees the folder when its holder ends, however it ends.

    Where other users can write, one of them could hold the lock for ever, and what is compiled there is not loaded.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if why_untrusted(folder) is None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _run(command: Sequence[str], half: _Half) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise EngineUnavailableError(
            f"the binding to {half.of} did not compile: {result.stderr.strip()[:500]}",
            advice="check that CXX names a compiler of C++20 and that torch_npu is an official wheel",
        )


def _torch_npu() -> Path:
    return Path(str(sys.modules["torch_npu"].__file__)).parent


def _torch_npu_headers() -> tuple[str, ...]:
    headers = _torch_npu() / "include"
    return f"-I{headers / 'third_party' / 'acl' / 'inc'}", f"-I{headers}"


def _python_headers() -> Path:
    return Path(sysconfig.get_path("include"))
