"""Operator prototypes as data: what each operator type takes and gives.

One table per family in `air_geir.prototypes.families`: a module with a docstring and one string `ROWS`, one operator
per line, in the form `parse` documents. To add an operator to the package, add a line to the table of its family (in
alphabetical order); to add a family, add its module to `families/__init__.py`. Users add theirs with `register`.
"""

from __future__ import annotations

from air_geir.prototypes._prototype import REQUIRED, AttrSpec, PortKind, PortSpec, Prototype, parse
from air_geir.prototypes._registry import all_types, family, find, get, register

__all__ = [
    "REQUIRED",
    "AttrSpec",
    "PortKind",
    "PortSpec",
    "Prototype",
    "all_types",
    "family",
    "find",
    "get",
    "parse",
    "register",
]
