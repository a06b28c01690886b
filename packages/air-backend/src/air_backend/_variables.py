"""Variables of the environment that TorchAir reads and AIR does not: each that is set leaves one warning."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from air_backend._logs import logger

UNREAD: Final[Mapping[str, str]] = {
    "BREAK_GRAPH_OP_LIST": "torch.compiler.disable and torch._dynamo.graph_break break a graph where you say",
}
"""The name of each, and what does its job."""


def warn_of_unread(environment: Mapping[str, str] = os.environ) -> None:
    """Says which variables have no effect, and what to use."""
    for name, instead in UNREAD.items():
        if environment.get(name):
            logger.warning("%s=%s is ignored: %s", name, environment[name], instead)
