"""The compiled module inside the torch_npu wheel that drives the Graph Engine, and the process's one session.

The module is loaded from its file: the Python package around it, with its signal handlers and patches, is not
imported. When that package is imported too, both share the one module.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import logging
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from air_geir.engines._options import PlainDevice, refuse_change
from air_geir.engines._present import no_npu
from air_geir.engines._protocol import Unavailable
from air_geir.engines.native import extension_module
from air_geir.errors import EngineError, EngineUnavailableError
from air_graph import files

log = logging.getLogger(__name__)

NAME = "torchair_extension"
_PACKAGE = "torchair.core"
_MODULES = ("_torchair", "_npu_graph_executor")


def unavailable() -> Unavailable | None:
    """None when the extension can be used here, else why not."""
    absent = no_npu(NAME)
    if absent is None and not (_folder() / "_torchair.so").exists():
        return Unavailable(
            NAME, f"this torch_npu has no {_folder() / '_torchair.so'}", "install an official wheel"
        )
    return absent


def _folder() -> Path:
    return Path(str(sys.modules["torch_npu"].__file__)).parent / "dynamo" / "torchair" / "core"


def load() -> ModuleType:
    """The extension module."""
    reason = unavailable()
    if reason is not None:
        raise EngineUnavailableError(f"engine {NAME} cannot be used: {reason.reason}", advice=reason.advice)
    torch.get_device_module("npu").current_stream()
    module, _ = (_load(name) for name in _MODULES)
    return module


def _load(name: str) -> ModuleType:
    full = f"{_PACKAGE}.{name}"
    if full not in sys.modules:
        sys.modules[full] = extension_module(full, _folder() / f"{name}.so")
    return sys.modules[full]


class NpuDevice(PlainDevice):
    """Facts of the current NPU."""

    @classmethod
    def current(cls) -> NpuDevice:
        """The device the process works on."""
        npu = torch.get_device_module("npu")
        digits = "".join("1" if flag else "0" for flag in (npu.conv.allow_hf32, npu.matmul.allow_hf32))
        return cls(int(npu.current_device()), digits, int(npu._get_deterministic_level()))


class Session:
    """The one session of the process: its options are fixed by the first graph."""

    def __init__(self) -> None:
        self.options: dict[str, str] | None = None

    def require(self, module: ModuleType, options: Mapping[str, str]) -> None:
        """Start the engine, or check that it was started with these options."""
        if self.options is None:
            module.InitializeGraphEngine(dict(options))
            self.options = dict(options)
            if f"{_PACKAGE}._backend" not in sys.modules:
                atexit.register(module.FinalizeGraphEngine)
            return
        refuse_change(self.options, options)


SESSION = Session()


def start_dump(config: Mapping[str, Any] | None, path: str | None, graph: str = "graph") -> None:
    """Hand a dump configuration to the device: a file of the user's, or one written from settings.

    The device reads the file during the call; a file of ours is deleted afterwards.
    """
    DUMP.is_asked_for(config, path, graph)
    if path is not None:
        log.info("device dump configured by %s", path)
        DUMP.set(path)
    elif config is not None:
        files.folder(config["dump"]["dump_path"], "the folder of dumped tensors")
        place = tempfile.gettempdir()
        with (
            files.writing(place, "the configuration of the dump"),
            tempfile.TemporaryDirectory(dir=place, prefix="air_dump_") as folder,
        ):
            ours = files.write_text(
                Path(folder) / "dump.json", json.dumps(config), "the configuration of the dump"
            )
            log.info("device dump configured: %s", config)
            DUMP.set(str(ours))


class DeviceDump:
    """The dump of the device: one for the process, set for the graphs that are loaded from then on.

    It is not taken back for a graph that asks for none: a graph before it may be loaded, or run, only later.
    """

    def __init__(self) -> None:
        self._wanted: object = None
        self._graph = ""
        self._said: list[object] = []
        self._is_initialised = False

    def is_asked_for(self, config: Mapping[str, Any] | None, path: str | None, graph: str) -> None:
        """Notes what a graph asks for; says so where an earlier graph has set another dump, once for each."""
        wanted = path or _without_names(config)
        if self._wanted is not None and wanted not in (self._wanted, *self._said):
            self._said.append(wanted)
            log.warning(
                "%s asks for %s dump, and %s has set one: the device has one dump for the process, and may write %s. "
                "Compile graphs that shall be dumped otherwise in another process",
                graph,
                "no" if wanted is None else "another",
                self._graph,
                f"the tensors of {graph} too" if wanted is None else "both graphs as the last one asks",
            )
        if wanted is not None:
            self._wanted, self._graph = wanted, graph

    def set(self, path: str) -> None:
        """By the extension, which starts the dump itself, or by the runtime where the wheel has no extension."""
        if unavailable() is None:
            load().AclmdlSetDump(path)
            return
        torch.get_device_module("npu").current_stream()
        runtime = ctypes.CDLL("libascendcl.so")
        failed = 0 if self._is_initialised else runtime.aclmdlInitDump()  # a second one is an error
        self._is_initialised = not failed
        failed = failed or runtime.aclmdlSetDump(path.encode())
        if failed:
            runtime.aclGetRecentErrMsg.restype = ctypes.c_char_p
            said = (runtime.aclGetRecentErrMsg() or b"").decode(errors="replace").strip()
            raise EngineError(
                f"the device refused the dump configured by {path}: {said or f'error {failed}'}",
                advice="compare the file with CANN's document on acl.json, or leave dump_config unset",
            )


DUMP = DeviceDump()


def _without_names(config: Mapping[str, Any] | None) -> object:
    """A dump without its operators, which differ between graphs of one configuration."""
    return (
        None
        if config is None
        else {key: value for key, value in config["dump"].items() if key != "dump_list"}
    )
