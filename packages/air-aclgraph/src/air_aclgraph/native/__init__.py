"""Builtin functions in C++ for what a call does per input: the library, compiled when a process first needs it.

The sources use no header of Python or of torch: what they call is in Python's stable ABI, exported by torch for
generated code, or handed over as an address.  So they compile in a fraction of a second; the library is kept in
torch's cache folder.  Whoever uses it has a way without it, for machines that have no compiler.
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
from typing import Final

import torch
from torch._C._dynamo import guards
from torch._inductor.runtime.cache_dir_utils import cache_dir

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
    compiler = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    content = b"".join(source.read_bytes() for source in _READ)
    digest = hashlib.sha256(content + torch.__version__.encode()).hexdigest()[:16]
    target = Path(cache_dir()) / "air_aclgraph" / f"builtins_{digest}.so"
    if not target.exists() and (compiler is None or not _build(compiler, target)):
        return None
    try:
        return ctypes.PyDLL(str(target))
    except OSError as error:
        log.warning("%s cannot be loaded (%s): calls do without it", target, error)
        return None


def _build(compiler: str, target: Path) -> bool:
    """Compiles into a file of its own and renames it, so that no process reads half a library."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        switches = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden"]
        command = [compiler, *switches, *map(str, SOURCES), "-o", str(made)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            log.warning("%s failed: %s", " ".join(command), result.stderr.strip().partition("\n")[0])
            return False
        made.replace(target)
    return True
