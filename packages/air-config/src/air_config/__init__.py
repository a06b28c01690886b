"""Options, rules and settings.

`CompilerConfig` is the tree a user edits. `resolve` turns it into `Settings`, which the rest of AIR reads: the
same paths, immutable, with a notice for everything that did not come through as it was set.
"""

from __future__ import annotations

from air_config._config import CompilerConfig
from air_config._context import Context, Product, ProfilerState, product_of
from air_config._flat import FLAT_OPTIONS, FlatOption
from air_config._held import HeldLayers
from air_config._layers import Origin
from air_config._notice import Effect, Notice
from air_config._option import Option
from air_config._patch import patch
from air_config._presets import PRESETS, Preset
from air_config._rulebook import RULES
from air_config._rules import Rule
from air_config._settings import Settings, resolve
from air_config._tree import OPTIONS
from air_config._version import __version__
from air_config.errors import (
    ConfigError,
    ConflictingOptions,
    FrozenSettings,
    MissingPath,
    NotAGroup,
    NotSerializable,
    RefusedOption,
    UnknownOption,
    UnusablePath,
    WrongType,
    WrongValue,
)

__all__ = [
    "FLAT_OPTIONS",
    "OPTIONS",
    "PRESETS",
    "RULES",
    "CompilerConfig",
    "ConfigError",
    "ConflictingOptions",
    "Context",
    "Effect",
    "FlatOption",
    "FrozenSettings",
    "HeldLayers",
    "MissingPath",
    "NotAGroup",
    "NotSerializable",
    "Notice",
    "Option",
    "Origin",
    "Preset",
    "Product",
    "ProfilerState",
    "RefusedOption",
    "Rule",
    "Settings",
    "UnknownOption",
    "UnusablePath",
    "WrongType",
    "WrongValue",
    "__version__",
    "patch",
    "product_of",
    "resolve",
]
