"""The binding in C++ to the Graph Engine's own session, compiled by the user's compiler when it is first needed.

It is linked to the `libge_runner.so` of this machine and kept in torch's cache folder, by the contents of the sources
and the path of that library. From a folder that somebody else can write it is not loaded, but compiled for this
process alone.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from torch._inductor.runtime.cache_dir_utils import cache_dir

from air_config.trust import Untrusted, why_untrusted
from air_geir.errors import EngineUnavailableError

_FOLDER: Final = Path(__file__).parent
_SOURCES: Final = (_FOLDER / "session.cpp", _FOLDER / "session.h")
LIBRARY: Final = "libge_runner.so"
_SWITCHES: Final = (
    "-std=c++17",
    "-O2",
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-D_GLIBCXX_USE_CXX11_ABI=0",
)


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


def library(engine: Path) -> ctypes.CDLL:
    """The binding, linked to this Graph Engine."""
    content = b"".join(source.read_bytes() for source in _SOURCES) + f"{engine.resolve()}".encode()
    name = f"session_{hashlib.sha256(content).hexdigest()[:16]}.so"
    kept = Path(cache_dir()) / "air_geir" / name
    try:
        if not kept.exists():
            _build(kept, engine)
        refusal = why_untrusted(kept)
    except OSError as error:
        refusal = Untrusted(str(kept), str(kept.parent), str(error))
    if refusal is None:
        return _loaded(kept, engine)
    with tempfile.TemporaryDirectory(prefix="air_geir_") as folder:
        _build(Path(folder) / name, engine)
        return _loaded(Path(folder) / name, engine)


def _loaded(path: Path, engine: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise EngineUnavailableError(
            f"{engine} is of a version that this binding does not fit: {error}",
            advice="use a CANN that this torch_npu supports, or engine='torchair_extension'",
        ) from error


def _build(target: Path, engine: Path) -> None:
    """Compiles into a file of its own and renames it, so that no process reads half a library."""
    program = compiler()
    if program is None:
        raise EngineUnavailableError(
            "no C++ compiler was found (CXX, g++, clang++)", advice="install g++, or set CXX"
        )
    headers = Path(str(sys.modules["torch_npu"].__file__)).parent / "include"
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        paths = (f"-I{headers / 'third_party' / 'acl' / 'inc'}", f"-I{headers}")
        # What the binding calls lies in this library and in those it needs.
        linked = ("-Wl,--no-as-needed", str(engine), "-Wl,--allow-shlib-undefined")
        command = [program, *_SWITCHES, *paths, str(_SOURCES[0]), *linked, "-o", str(made)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise EngineUnavailableError(
                f"the binding to {engine} did not compile: {result.stderr.strip()[:500]}",
                advice="check that CXX names a compiler of C++17 and that torch_npu is an official wheel",
            )
        made.chmod(0o700)
        made.replace(target)
