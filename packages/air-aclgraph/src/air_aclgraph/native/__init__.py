"""Builtin functions in C++ for what a call does per input: the library, compiled when a process first needs it.

The sources use no header of Python or of torch: what they call is in Python's stable ABI, exported by torch for
generated code, or handed over as an address.  So they compile in a fraction of a second; the library is kept in
torch's cache folder, which may be shared: it is loaded from there if nobody else can have written it, and where that
is not so, or the folder cannot be written, it is compiled for this process alone.  Whoever uses it has a way without
it, for machines that have no compiler.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import torch
from torch._C._dynamo import guards
from torch._inductor.runtime.cache_dir_utils import cache_dir

from air_config.trust import Untrusted, why_untrusted

log = logging.getLogger(__name__)

_FOLDER: Final = Path(__file__).parent
SOURCES: Final = tuple(sorted(_FOLDER.glob("*.cpp")))
_READ: Final = (*SOURCES, _FOLDER / "python.h")


def data_ptr_entry() -> int | None:
    """The address of torch's C function from a Python tensor to its memory; None where torch has none."""
    entry: int | None = getattr(guards, "_torchinductor_pyobject_tensor_data_ptr", None)
    return entry


@functools.cache
def library() -> ctypes.PyDLL | None:
    """The library of the builtins, compiled once per machine and version; None where it cannot be had."""
    name = f"builtins_{_digest()}.so"
    kept = Path(cache_dir()) / "air_aclgraph" / name
    try:
        if not kept.exists():
            _build(kept)
        return _loaded(kept)
    except (OSError, Untrusted) as error:
        log.warning("%s is compiled for this process alone: %s", name, error)
    except _NotCompiled as failure:
        _say_without(failure)
        return None
    try:
        with tempfile.TemporaryDirectory(prefix="air_aclgraph_") as folder:
            _build(Path(folder) / name)
            return _loaded(Path(folder) / name)
    except (OSError, Untrusted, _NotCompiled) as error:
        _say_without(error)
        return None


def builtin(name: str, *arguments: Any) -> Any:
    """A function of the library that gives a Python object; None where there is no library."""
    found = library()
    if found is None:
        return None
    function = found[name]
    function.argtypes, function.restype = arguments, ctypes.py_object
    return function


class _NotCompiled(Exception):
    """There is no compiler, or it refused the sources."""


def _say_without(reason: Exception) -> None:
    log.warning("calls do without the builtins in C++: %s", reason)


def _digest() -> str:
    content = b"".join(source.read_bytes() for source in _READ)
    return hashlib.sha256(content + torch.__version__.encode()).hexdigest()[:16]


def _loaded(target: Path) -> ctypes.PyDLL:
    """Loads a library if that can only run what this user, or root, has put there.

    By its name, since the loader knows libraries by names and takes two descriptors of one number for one: no part of
    a path that passed can be replaced by anybody else.
    """
    refusal = why_untrusted(target)
    if refusal is not None:
        raise refusal
    return ctypes.PyDLL(str(target))


def _build(target: Path) -> None:
    """Compiles into a file of its own and renames it, so that no process reads half a library."""
    compiler = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    if compiler is None:
        raise _NotCompiled("no C++ compiler was found (CXX, g++, clang++)")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        switches = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden"]
        command = [compiler, *switches, *map(str, SOURCES), "-o", str(made)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise _NotCompiled(f"{' '.join(command)}: {result.stderr.strip().partition(chr(10))[0]}")
        made.chmod(0o700)
        made.replace(target)
