"""Rules of exports: what writes a graph reads `export.experimental`; nothing runs that other options could act on."""

from __future__ import annotations

from typing import Final

from air_config._rulebook._conditions import ARCHITECTURE, EXPORTED
from air_config._rulebook._unserved import NOT_SERVED
from air_config._rules import Rule
from air_config._tree import OPTIONS

#: Options with a rule of their own about exports.
_JUDGED: Final = ("experimental_config.enable_ref_data", "experimental_config.frozen_parameter")

EXPORTS: Final = (
    Rule(
        "exports-write-graphs-alone",
        EXPORTED,
        tuple(
            path
            for path in OPTIONS
            if not path.startswith("export.experimental.") and path not in (*_JUDGED, *NOT_SERVED)
        ),
        "ignored",
        "dynamo_export writes the graph, and neither compiles nor runs it: only export.experimental acts",
        ARCHITECTURE,
    ),
)
