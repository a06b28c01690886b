"""What a graph took in of its process without a condition of Dynamo: variables of the environment, limits of Python.

    if os.environ.get("FLAG") == "1": ...       # FLAG is a text in the lines that were traced
    if "my_flag" in os.environ: ...             # likewise
    depth = sys.getrecursionlimit()             # a number in the graph

So the texts of the traced lines that may name a variable are compared as globals: those in capitals, and all texts of a
function that speaks of the environment. Values of variables may be secrets: only a digest is written of each.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from air_backend.inference._described import described, hidden

_NAME: Final = r"[\w.\-]+"
_CAPITALS: Final = re.compile(r"""["']([A-Z_][A-Z0-9_]+)["']""")
_ANY: Final = re.compile(rf"""["']({_NAME})["']""")
_SPEAKS_OF_IT: Final = re.compile(r"env", re.IGNORECASE)
#: Expressions of Dynamo's for what is in `os.environ`.
_VALUE: Final = re.compile(r"\benviron(\.get)?[\[(]|\._data\[b['\"]")
#: What Dynamo computes while it traces: the name of a function, what another process asks.
_LIMITS: Final = {"getrecursionlimit": ("__import__('sys').getrecursionlimit()", sys.getrecursionlimit)}


def texts_in(guards: Iterable[Any]) -> set[str] | None:
    """The texts that conditions are about, where a graph reads the environment; None where it does not."""
    values = [guard.value for guard in guards]
    if not any(isinstance(value, os._Environ) or value is os.getenv for value in values):
        return None
    return {value for value in values if type(value) is str and re.fullmatch(_NAME, value)}


def variables(names: Iterable[str], sources: Iterable[str]) -> dict[str, str]:
    """What each is now, by an expression as Dynamo has them for globals."""
    found = set(names)
    for source in sources:
        found.update((_ANY if _SPEAKS_OF_IT.search(source) else _CAPITALS).findall(source))
    return {
        f"__import__('os').environ.get({name!r})": hidden(described(os.environ.get(name)))
        for name in sorted(found)
    }


def limits(sources: Collection[str]) -> dict[str, str]:
    """The limits of Python that these sources ask for, by expressions of the same kind."""
    return {
        expression: described(ask())
        for name, (expression, ask) in _LIMITS.items()
        if any(name in source for source in sources)
    }


def without_values(texts: Mapping[str, str]) -> dict[str, str]:
    """The same, of what is in the environment the digests alone."""
    return {name: hidden(text) if _VALUE.search(name) else text for name, text in texts.items()}
