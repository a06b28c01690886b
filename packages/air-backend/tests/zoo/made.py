"""A model that was made, with what it is called with."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

NUMBERS_AT_MOST: Final = 64_000_000
"""Parameters of a model that still counts as tiny."""
TRIED_AT_MOST: Final = 120.0
"""Seconds of a processor in which ways to call a model are looked for."""


class NotMade(Exception):
    """No small model of an architecture runs in eager."""


Inputs = Callable[[], dict[str, Any]]
"""Draws the arguments of a call, with the generator of torch."""


@dataclass(frozen=True)
class Made:
    """A model that runs in eager."""

    model: nn.Module
    inputs: Inputs
    made_of: str
    """The class of the model, and how small it is."""

    def drawn(self, seed: int) -> dict[str, Any]:
        """The arguments of one call, the same for the same seed."""
        torch.manual_seed(seed)
        return self.inputs()


def few_enough(build: Callable[[], nn.Module]) -> None:
    """Refuses a model that is not tiny before memory is taken for it."""
    try:
        with torch.device("meta"):
            model = build()
    except (NotImplementedError, RuntimeError):  # it reads numbers while it is built
        return
    count = sum(each.numel() for each in model.parameters())
    if count > NUMBERS_AT_MOST:
        raise NotMade(f"{count:,} parameters")


def runs(model: nn.Module, inputs: Inputs) -> bool:
    """Whether a call gives at least one tensor with something in it; what it raises is left to the caller."""
    torch.manual_seed(0)
    with torch.no_grad():
        out = model(**inputs())
    return any(isinstance(leaf, Tensor) and leaf.numel() for leaf in tree_leaves(out))


def made(
    build: Callable[[], nn.Module], ways: Callable[[nn.Module], Iterable[Inputs]], how_small: str
) -> Made:
    """The model that is built, with the first way to call it that runs in eager."""
    few_enough(build)
    torch.manual_seed(0)
    model = build().eval()
    name = type(model).__name__
    error: Exception | None = None
    until = time.process_time() + TRIED_AT_MOST
    for inputs in itertools.takewhile(lambda _: time.process_time() < until, ways(model)):
        try:
            if runs(model, inputs):
                return Made(model, inputs, f"{name} {how_small}")
        except Exception as refused:  # the next way to call it may do
            error = error or refused
    raise error or NotMade(f"no way to call {name} is known")
