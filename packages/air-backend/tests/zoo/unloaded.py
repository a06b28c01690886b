"""Lets torchvision be imported where its kernels do not fit the torch at hand: a CUDA wheel next to a torch for CPUs.

timm and transformers import torchvision for pictures on the way in; no model here calls its operators. Its own import
asks for the names of two, and those are declared, without a kernel: a model that did call one would fail in eager.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Final

import torch

_WANTED: Final = ("nms", "qnms")
_declared: Final[list[torch.library.Library]] = []


def declare_what_torchvision_lacks() -> None:
    """To be called before the first import of torchvision; does nothing where its kernels can be loaded."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None or _declared or _loads(Path(spec.origin).parent):
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in _WANTED:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)


def _loads(package: Path) -> bool:
    for file in package.glob("_C*.so"):
        try:
            torch.ops.load_library(os.fspath(file))
        except OSError:
            return False
    return True
