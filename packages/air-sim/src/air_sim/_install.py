"""Finds the installed torch and torch_npu without importing them.

Importing torch loads torch_npu, which needs the libraries that are about to be built: so the versions and folders
are read from the package metadata.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from air_sim.errors import MissingPackage


@dataclass(frozen=True)
class Install:
    """Where the two wheels are, and which versions."""

    torch: Path
    torch_npu: Path
    torch_version: str
    torch_npu_version: str

    @property
    def headers(self) -> tuple[Path, ...]:
        """Include folders: CANN's headers come with torch_npu, ATen's with torch."""
        return (self.torch_npu / "include" / "third_party" / "acl" / "inc", self.torch / "include")

    @property
    def torch_libraries(self) -> Path:
        """Folder of libtorch_cpu.so."""
        return self.torch / "lib"

    @property
    def key(self) -> str:
        """What the compiled libraries depend on beside their sources."""
        python = f"{sys.implementation.cache_tag}"
        return f"torch-{self.torch_version}_torch_npu-{self.torch_npu_version}_{python}"


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingPackage(package)
    return Path(spec.origin).parent


def find_install() -> Install:
    """The torch and torch_npu of the running interpreter."""
    return Install(
        torch=_folder("torch"),
        torch_npu=_folder("torch_npu"),
        torch_version=metadata.version("torch"),
        torch_npu_version=metadata.version("torch_npu"),
    )
