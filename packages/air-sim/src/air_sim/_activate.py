"""Makes `import torch` in this process, and in its children, find the software CANN.

The libraries are loaded by full path before torch_npu asks for them by name: the dynamic linker recognises a
library that is already there by its soname, so no LD_LIBRARY_PATH has to be set before the process starts.  For
child processes the folder is put in front of LD_LIBRARY_PATH, which they read when they start.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from collections.abc import Mapping
from importlib import metadata

from air_sim._build import Libraries, build
from air_sim._switches import PREFIX, Switches, variable
from air_sim._toolkit import make_toolkit
from air_sim.errors import AlreadyActive, TooLate

log = logging.getLogger(__name__)

_active: Libraries | None = None
_handles: list[ctypes.CDLL] = []


def active() -> Libraries | None:
    """The libraries this process runs on, or None before activate() in a process that did not start on air-sim."""
    global _active
    if _active is None and "torch_npu" in sys.modules and os.environ.get(f"{PREFIX}ACTIVE"):
        _active = build()  # started by `air-sim run`, or by a process on air-sim: the libraries are loaded
    return _active


def _newest_protobuf_is_too_strict() -> bool:
    """TorchAir's descriptors were made by protoc 3.20; the C++ runtime of protobuf 4 and later refuses those."""
    try:
        major = int(metadata.version("protobuf").split(".")[0])
    except metadata.PackageNotFoundError:
        return False
    return major >= 4


def environment(libraries: Libraries, switches: Switches) -> dict[str, str]:
    """Variables under which a fresh Python process runs on air-sim."""
    folder = str(libraries.folder)
    before = [part for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part and part != folder]
    result = {
        **switches.environment(),
        **make_toolkit(libraries, switches),
        "LD_LIBRARY_PATH": ":".join([folder, *before]),
        f"{PREFIX}ACTIVE": str(os.getpid()),
    }
    if _newest_protobuf_is_too_strict() and "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION" not in os.environ:
        log.info(
            "air-sim sets PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python for this program: protobuf 4 and later do not "
            "load TorchAir's descriptors otherwise"
        )
        result["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"
    return result


def _refuse_new(given: Mapping[str, object], chosen: Switches) -> None:
    before, wanted = Switches.of({}).environment(), chosen.environment()
    ignored = tuple(name for name in given if before[variable(name)] != wanted[variable(name)])
    if ignored:
        raise AlreadyActive(ignored)


def activate(**switches: object) -> Libraries:
    """Loads air-sim into this process; call it before `import torch`.

    Builds the libraries on first use.  `switches` are the fields of `air_sim.Switches`; what is not given comes from
    the environment (`AIR_SIM_...`), then from the defaults.  A second call does nothing; it may not bring other
    switches, because the libraries have read theirs.
    """
    global _active
    chosen = Switches.of(switches)
    if _active is not None or "torch_npu" in sys.modules:
        _refuse_new(switches, chosen)
    if _active is not None:
        return _active
    if "torch_npu" in sys.modules and not os.environ.get(f"{PREFIX}ACTIVE"):
        raise TooLate
    libraries = build()
    os.environ.update(environment(libraries, chosen))
    modules = os.environ["PYTHONPATH"].split(os.pathsep)[0]
    if modules not in sys.path:
        sys.path.append(modules)
    for path in libraries.preload:
        # The ABI libraries become global like ones that the program was linked to; those over libtorch stay local,
        # so that they do not decide which torch symbols win.
        mode = ctypes.RTLD_LOCAL if path.stem in ("libopapi", "libge_runner") else ctypes.RTLD_GLOBAL
        _handles.append(ctypes.CDLL(str(path), mode=mode))
    _active = libraries
    return libraries
