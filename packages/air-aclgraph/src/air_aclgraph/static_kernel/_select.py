"""Which dumped operators are to be compiled: each content once, compilable, not on the blacklist."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from air_aclgraph.static_kernel.errors import StageFailed, files_of


@dataclass(frozen=True)
class Operator:
    """One dumped call; the digest of its description is its identity."""

    file: Path
    digest: str

    @property
    def name(self) -> str:
        return self.file.stem


@dataclass(frozen=True)
class Selection:
    """What is compiled, and why the rest is not."""

    operators: tuple[Operator, ...]
    refused: tuple[tuple[str, str], ...]


def select(dump: Path, blacklist: Sequence[str] = ()) -> Selection:
    """Reads the folder of one dump.

    `*_opcompile` has the operators that CANN can compile for fixed shapes; where a version of CANN does not
    write it, `*_debug` has all of them and the compiler decides.
    """
    with files_of("select", "the dumped operators cannot be read"):
        return _selected(dump, blacklist)


def _selected(dump: Path, blacklist: Sequence[str]) -> Selection:
    compilable, every = _folder(dump, "_opcompile"), _folder(dump, "_debug")
    chosen = compilable if compilable is not None else every
    if chosen is None:
        raise StageFailed(
            f"CANN dumped no operators into {dump}",
            advice="see that the graph computes on the NPU, and that the folder can be written",
            stage="select",
        )
    operators: dict[str, Operator] = {}
    refused = []
    for file in sorted(chosen.glob("*.json")):
        word = next((word for word in blacklist if word in file.name), None)
        if word is not None:
            refused.append((file.stem, f"on the blacklist: {word!r}"))
            continue
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        operators.setdefault(digest, Operator(file, digest))
    if compilable is not None and every is not None:
        names = {file.name for file in compilable.glob("*.json")}
        rest = sorted(file for file in every.glob("*.json") if file.name not in names)
        refused += [(file.stem, "not compilable for fixed shapes") for file in rest]
    return Selection(tuple(operators.values()), tuple(refused))


def _folder(dump: Path, suffix: str) -> Path | None:
    return next((folder for folder in sorted(dump.iterdir()) if folder.name.endswith(suffix)), None)
