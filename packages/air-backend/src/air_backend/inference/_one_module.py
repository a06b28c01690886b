"""`collections.abc` is one module, as from Python 3.11 on: in 3.10 it is another one than what says it is.

torch looks up the source of what it traced by the name of its module. For `Mapping.get` that is `collections.abc`. In
Python 3.10 that name has a file that holds nothing, and so torch made no file of a trace that goes into it, as those of
transformers do. Both modules have the same objects.
"""

from __future__ import annotations

import _collections_abc
import sys


def make_collections_one() -> None:
    """Puts the module that the name belongs to in its place."""
    sys.modules["collections.abc"] = _collections_abc
