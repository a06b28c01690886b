"""Finds options that no source file names: they can be set, and nothing happens."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from air_config._rulebook import NOT_SERVED
from air_config._tree import OPTIONS

__all__ = ["unread_options"]

READ_BY_RULES: Final = ("air.reinplace_with_streams",)
"""Options whose whole effect is that a rule acts or does not."""


def unread_options(folders: Iterable[Path]) -> dict[str, str]:
    """What is wrong, by path: an option that no file names, or one that is named and said to be unserved.

    An option counts as named when its last part stands anywhere in a Python file, as a word.
    """
    text = "\n".join(
        file.read_text(encoding="utf-8") for folder in folders for file in sorted(folder.rglob("*.py"))
    )
    words = set(re.findall(r"\w+", text))
    wrong = {}
    for path in OPTIONS:
        named = path in READ_BY_RULES or path.rpartition(".")[2] in words
        if not named and path not in NOT_SERVED:
            wrong[path] = "no file names it; serve it, or add it to NOT_SERVED"
        if named and path in NOT_SERVED:
            wrong[path] = "a file names it; take it out of NOT_SERVED"
    return wrong
