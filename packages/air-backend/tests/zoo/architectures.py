"""Which architectures there are: what the libraries list, in parts of equal size that anyone can draw again."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Sequence
from importlib import metadata
from typing import Any, Final, NamedTuple

from zoo.made import Made

LIBRARIES: Final = {
    "transformers": "zoo.hugging_face",
    "timm": "zoo.timm_models",
    "diffusers": "zoo.diffusers_models",
}
"""From a library to the module that lists and makes its models: `names()` and `make(name)`.

Any other name is that of such a module itself.
"""


class Architecture(NamedTuple):
    """A kind of model of a library."""

    library: str
    name: str


class Shard(NamedTuple):
    """One of so many parts, counted from 0."""

    part: int
    of: int

    @classmethod
    def parsed(cls, text: str) -> Shard:
        part, of = (int(number) for number in text.split("/"))
        if not 0 <= part < of:
            raise ValueError(f"a shard is i/n with i from 0 to n - 1, not {text}")
        return cls(part, of)

    def holds(self, architecture: Architecture) -> bool:
        """By a hash of the name: an architecture that comes or goes moves no other."""
        return _hash(architecture) % self.of == self.part


WHOLE: Final = Shard(0, 1)


def _hash(architecture: Architecture) -> int:
    return zlib.crc32("/".join(architecture).encode())


def listed(libraries: Sequence[str], shard: Shard = WHOLE) -> list[Architecture]:
    """The architectures of a shard, in an order without meaning: a run that is stopped has seen some of everything."""
    every = (Architecture(library, name) for library in libraries for name in _module(library).names())
    return sorted(filter(shard.holds, every), key=_hash)


def make(architecture: Architecture) -> Made:
    """A tiny model of the architecture; raises `NotMade` where none runs in eager."""
    made: Made = _module(architecture.library).make(architecture.name)
    return made


def version(library: str) -> str:
    """The version of a library that is installed here; empty for a module of models."""
    return metadata.version(library) if library in LIBRARIES else ""


def _module(library: str) -> Any:
    return importlib.import_module(LIBRARIES.get(library, library))
