"""Reads what packages of custom operators tell CANN: `op_impl/ai_core/tbe/config/<soc>/aic-<soc>-ops-info.json`.

    {"MyScale": {"input0": {"name": "x", "paramType": "required"},
                 "attr": {"list": "factor"}, "attr_factor": {"type": "float", "defaultValue": "1.0"},
                 "output0": {"name": "y", "paramType": "required"}}}

Packages lie in `$ASCEND_OPP_PATH/vendors/*` and in the folders of `$ASCEND_CUSTOM_OPP_PATH`.
"""

from __future__ import annotations

import ast
import json
import logging
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from air_geir.prototypes import REQUIRED, AttrSpec, PortKind, PortSpec, Prototype
from air_geir.types import AttrKind

log = logging.getLogger(__name__)

_FILES: Final = "op_impl/ai_core/tbe/config/*/aic-*-ops-info.json"
_PORTS: Final = {
    "required": PortKind.REQUIRED,
    "optional": PortKind.OPTIONAL,
    "dynamic": PortKind.DYNAMIC,
}
_ATTRS: Final = {
    "int": AttrKind.INT,
    "float": AttrKind.FLOAT,
    "bool": AttrKind.BOOL,
    "str": AttrKind.STR,
    "listInt": AttrKind.LIST_INT,
    "listFloat": AttrKind.LIST_FLOAT,
    "listBool": AttrKind.LIST_BOOL,
    "listStr": AttrKind.LIST_STR,
}


def known_operators() -> Mapping[str, Prototype]:
    """The operators of every package of custom operators that the environment names, by type."""
    return _read(tuple(_files()))


def _files() -> Iterator[tuple[Path, int]]:
    """The files, each with the time it was written: a package may be installed while the program runs."""
    folders = [Path(one) for one in os.environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(os.pathsep) if one]
    if home := os.environ.get("ASCEND_OPP_PATH"):
        folders += sorted(Path(home).glob("vendors/*"))
    for folder in folders:
        for file in sorted(folder.glob(_FILES)):
            yield file, file.stat().st_mtime_ns


@cache
def _read(files: tuple[tuple[Path, int], ...]) -> Mapping[str, Prototype]:
    found: dict[str, Prototype] = {}
    for file, _ in files:
        try:
            described = json.loads(file.read_text())
        except (OSError, ValueError) as wrong:
            log.warning("%s cannot be read, its operators are not converted by themselves: %s", file, wrong)
            continue
        for op_type, row in described.items():
            prototype = _prototype(op_type, row)
            if prototype is not None:
                found.setdefault(op_type, prototype)
    return found


def _prototype(op_type: str, row: Mapping[str, Any]) -> Prototype | None:
    """None for a row that says something this version does not know; its operator needs a converter."""
    try:
        attrs = [name.strip() for name in row.get("attr", {}).get("list", "").split(",") if name.strip()]
        return Prototype(
            op_type,
            tuple(_ports(row, "input")),
            tuple(_ports(row, "output")),
            tuple(_attribute(name, row[f"attr_{name}"]) for name in attrs),
        )
    except (KeyError, AttributeError, ValueError, SyntaxError) as wrong:
        log.warning("operator %s is not converted by itself: its description has %r", op_type, wrong)
        return None


def _ports(row: Mapping[str, Any], side: str) -> Iterator[PortSpec]:
    at = 0
    while (port := row.get(f"{side}{at}")) is not None:
        yield PortSpec(port["name"], _PORTS[port.get("paramType", "required")])
        at += 1


def _attribute(name: str, said: Mapping[str, Any]) -> AttrSpec:
    kind = _ATTRS[said["type"]]
    text = said.get("defaultValue")
    if text is None or said.get("paramType") == "required":
        return AttrSpec(name, kind, REQUIRED)
    return AttrSpec(name, kind, _default(kind, str(text)))


def _default(kind: AttrKind, text: str) -> object:
    if kind is AttrKind.STR:
        return text
    value = ast.literal_eval({"true": "True", "false": "False"}.get(text.lower(), text))
    if isinstance(value, (list, tuple)):
        return tuple(value)
    return float(value) if kind is AttrKind.FLOAT else value
