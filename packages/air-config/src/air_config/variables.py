"""Environment variables that are not options: numbers and switches, checked where they are read.

rank = number("RANK", 0)          # 3, or WrongValue that names the variable, the value and what is allowed
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from air_config._kinds import INT32_MAX, boolean, integer

__all__ = ["number", "switch"]

_WHERE: Final = "the environment"


def number(
    name: str,
    otherwise: int,
    low: int = 0,
    high: int = INT32_MAX,
    environment: Mapping[str, str] | None = None,
) -> int:
    """An int between two bounds; `otherwise` where the variable is not set, or empty."""
    text = (os.environ if environment is None else environment).get(name, "").strip()
    return integer(low, high).take_text(name, text, _WHERE) if text else otherwise


def switch(name: str, otherwise: bool, environment: Mapping[str, str] | None = None) -> bool:
    """On or off; `otherwise` where the variable is not set, or empty."""
    text = (os.environ if environment is None else environment).get(name, "").strip()
    return boolean().take_text(name, text, _WHERE) if text else otherwise
