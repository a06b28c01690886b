"""What CANN gives: the dump of operator arguments, the operator library, the new selection of kernels.

The protocol is all that the pipeline knows of a device; `CannToolkit` is its implementation over torch_npu.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch

from air_aclgraph.errors import Unsupported
from air_aclgraph.static_kernel._profiler import recording_profiler
from air_aclgraph.static_kernel.errors import StageFailed


class Toolkit(Protocol):
    """The calls of CANN that static kernel compilation makes."""

    soc: str
    private: bool
    """Whether kernels can be installed into a directory of the user's choice."""
    quiet: bool
    """Whether installers know `-q`."""
    flags: tuple[str, ...]
    """Words that the compiler of this version wants besides the documented ones."""

    def versions(self) -> tuple[object, ...]:
        """What a compiled kernel depends on besides its operator and the compiler's words."""

    def start_dump(self, folder: Path) -> None:
        """From now on each operator's description is written below a folder."""

    def stop_dump(self) -> None:
        """Ends the dump after all work that was issued."""

    def library(self) -> Path:
        """The operator library that all processes share."""

    def reselect(self, private: Path | None) -> None:
        """Makes the operators of this process look again for their kernels."""

    def conflict(self) -> str | None:
        """Why operators cannot be dumped now, if so."""


class CannToolkit:
    """CANN as torch_npu reaches it."""

    def __init__(self, device: torch.device) -> None:
        if device.type != "npu":
            raise Unsupported(
                f"static kernels are compiled by CANN, for NPUs; the graph computes on {device}",
                advice="switch experimental_config.aclgraph._aclnn_static_shape_kernel off for this device",
                option="experimental_config.aclgraph._aclnn_static_shape_kernel",
                runtime=device.type,
            )
        import torch_npu

        self._npu: Any = torch_npu.npu
        self._calls: Any = torch_npu._C
        utils: Any = torch_npu.npu.utils
        self.soc = str(torch_npu.npu.get_device_name())
        self._cann = str(utils.get_cann_version())
        with_path = hasattr(self._npu, "_aclnn_reselect_static_kernel_with_path")
        self.quiet = bool(utils._is_gte_cann_version("9.1.0", module="CANN"))
        self.private = with_path and self.quiet
        self.flags: tuple[str, ...] = (
            ("-f", "true") if utils._is_gte_cann_version("9.0.0", module="CANN") else ()
        )

    def versions(self) -> tuple[object, ...]:
        level = getattr(self._npu, "_get_deterministic_level", None)
        deterministic = torch.are_deterministic_algorithms_enabled()
        return (self._cann, self.soc, deterministic, None if level is None else level())

    def start_dump(self, folder: Path) -> None:
        self._calls._aclop_start_dump(str(folder))

    def stop_dump(self) -> None:
        self._npu.synchronize()
        self._calls._aclop_stop_dump()

    def library(self) -> Path:
        return shared_library(os.environ)

    def reselect(self, private: Path | None) -> None:
        if private is None:
            self._npu._aclnn_reselect_static_kernel()
        else:
            self._npu._aclnn_reselect_static_kernel_with_path(str(private))

    def conflict(self) -> str | None:
        return recording_profiler()


def shared_library(environment: Mapping[str, str]) -> Path:
    """The operator library that the environment of CANN names."""
    named = environment.get("ASCEND_OPP_PATH")
    if named:
        return Path(named)
    home = environment.get("ASCEND_HOME_PATH")
    if home:
        return Path(home) / "opp"
    raise StageFailed(
        "neither ASCEND_OPP_PATH nor ASCEND_HOME_PATH is set: the operator library cannot be found",
        advice="source set_env.sh of the CANN toolkit before the program starts",
        stage="install",
    )
