"""The variables of the environment that a graph took in: Dynamo has no condition on what it found in `os.environ`.

    if os.environ.get("FLAG") == "1": ...       # FLAG is a text in the lines that were traced
    if os.getenv("FLAG") == "1": ...            # likewise

So the texts of the traced lines that may name a variable (capitals, or what a call looks up) are compared as globals.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any, Final

from air_backend.inference._described import described

_CAPITALS: Final = r"[A-Z_][A-Z0-9_]+"
_NAMED: Final = re.compile(rf"""["']({_CAPITALS})["']""")
_LOOKED_UP: Final = re.compile(r"""env\w*(?:\.get)?\s*[\[(]\s*["'](\w+)["']""")


def texts_in(guards: Iterable[Any]) -> set[str] | None:
    """The texts that conditions are about, where a graph reads the environment; None where it does not."""
    values = [guard.value for guard in guards]
    if not any(isinstance(value, os._Environ) or value is os.getenv for value in values):
        return None
    return {value for value in values if type(value) is str and re.fullmatch(_CAPITALS, value)}


def variables(names: Iterable[str], lines: Iterable[str]) -> dict[str, str]:
    """What each is now, by an expression as Dynamo has them for globals."""
    found = {*names, *(n for line in lines for kind in (_NAMED, _LOOKED_UP) for n in kind.findall(line))}
    return {
        f"__import__('os').environ.get({name!r})": described(os.environ.get(name)) for name in sorted(found)
    }
