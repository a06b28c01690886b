"""Tiny models of timm: of every module the smallest one, on pictures as small as it takes."""

from __future__ import annotations

import inspect
from typing import Any, Final

import timm
import torch

from zoo.made import Made, NotMade, few_enough, runs

ROWS: Final = 2
AT_MOST: Final = 20
"""Models of a module that are looked at: those with the shortest names, the plain ones."""
SIDES: Final = (64, 96, 128, 0)
"""Of a picture; 0 for the one that the model is made for."""


def names() -> list[str]:
    return sorted(module for module in timm.list_modules() if timm.list_models(module=module))


def make(name: str) -> Made:
    smallest = min(sorted(timm.list_models(module=name), key=len)[:AT_MOST], key=_size)
    faults: list[str] = []
    for side in SIDES:
        for given in ({"img_size": side}, {}) if side else ({},):
            try:
                return _made(smallest, side, given)
            except Exception as error:  # the next size may do
                faults.append(f"{smallest}: {type(error).__name__}: {error}")
    raise NotMade(faults[-1])


def _size(model: str) -> int:
    with torch.device("meta"):
        try:
            return sum(each.numel() for each in timm.create_model(model).parameters())
        except (NotImplementedError, RuntimeError):  # it reads numbers while it is built
            return 1 << 60


def _made(model_name: str, side: int, given: dict[str, int]) -> Made:
    few_enough(lambda: timm.create_model(model_name, **given))
    torch.manual_seed(0)
    model = timm.create_model(model_name, **given).eval()
    channels, high, wide = model.default_cfg["input_size"]
    shape = (ROWS, channels, side or high, side or wide)
    first = next(iter(inspect.signature(model.forward).parameters))

    def inputs() -> dict[str, Any]:
        return {first: torch.randn(shape)}

    if not runs(model, inputs):
        raise NotMade(f"{model_name} gives no tensor")
    return Made(model, inputs, f"{model_name} {side or high}")
