"""The rule table: every constraint between options, modes and places, one row each, in the order they run."""

from __future__ import annotations

from typing import Final

from air_config._rulebook._devices import DEVICES, HOST
from air_config._rulebook._exports import EXPORTS
from air_config._rulebook._interplay import INTERPLAY, switched_off
from air_config._rulebook._modes import EAGER, MODES, MULTI_STREAM, PLACE, PRODUCTS
from air_config._rulebook._static_kernels import STATIC_KERNEL
from air_config._rulebook._unserved import NOT_SERVED, UNSERVED
from air_config._rules import Rule

__all__ = ["NOT_SERVED", "RULES"]

RULES: Final[tuple[Rule, ...]] = (
    *EXPORTS,
    *PLACE,
    *MODES,
    *EAGER,
    *PRODUCTS,
    *MULTI_STREAM,
    *HOST,
    *STATIC_KERNEL,
    *DEVICES,
    *INTERPLAY,
    *switched_off(),
    *UNSERVED,
)
"""Every rule, in the order in which they run."""
