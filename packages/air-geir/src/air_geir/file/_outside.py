"""Constants that lie in raw files beside a model: written, and found again.

out/model.air      FileConstant(file_path="out/layer_weight")
out/layer_weight   the bytes of `layer.weight`
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, Final

from air_geir.errors import FileFormatError
from air_geir.file._decode import parse_model
from air_geir.ir import Attr, AttrKind, Node, TensorValue
from air_graph.files import write_bytes

SMALL_CONSTANT: Final = 4096
"""Constants below this many bytes always stay in line."""


class ConstantFiles:
    """Writes constants of a model to files, and gives the attributes of the FileConstant that takes their place."""

    def __init__(self, directory: Path, model: Path) -> None:
        self._directory = directory
        self._model = model
        self.written: list[Path] = []

    def discard(self) -> None:
        """Takes back what was written for a model that is not."""
        for path in self.written:
            with contextlib.suppress(OSError):
                path.unlink()

    def __call__(self, node: Node, value: TensorValue) -> Mapping[str, Attr] | None:
        shape = value.desc.file_shape()
        if value.nbytes < SMALL_CONSTANT:
            return None
        path = self._free(re.sub(r"[^\w-]", "_", node.name))
        try:
            write_bytes(path, value.tobytes(), f"the constant {node.name} of the model")
        except BaseException:
            self.discard()
            raise
        self.written.append(path)
        return {
            "file_path": Attr(AttrKind.STR, str(path)),
            "shape": Attr(AttrKind.LIST_INT, shape),
            "dtype": Attr(AttrKind.DTYPE, value.desc.dtype),
        }

    def _free(self, name: str) -> Path:
        """A file that is no other constant's. One that an older version of the same model has is written anew."""
        longer = f"{self._model.stem}_{name}"
        for number in count():
            names = (f"{longer}_{number}",) if number else (name, longer)
            for path in (self._directory / one for one in names):
                if path not in self.written and not (path.exists() and path.resolve() in self._of_others):
                    return path
        raise AssertionError("unreachable")

    @cached_property
    def _of_others(self) -> set[Path]:
        """The files that other models beside this one refer to."""
        others = set(self._model.parent.glob("*.air")) - {self._model}
        return {path.resolve() for other in others for path in _files_of(other)}


def _files_of(path: Path) -> Iterator[Path]:
    """The constants in files of a model; none where it is no model, or cannot be read.

    A relative path is of the directory that the model was written from: a file beside the model may be meant.
    """
    try:
        model = parse_model(path.read_bytes())
    except (OSError, FileFormatError):
        return
    for attribute in _paths(model):
        constant = Path(os.fsdecode(attribute.s))
        yield constant
        if not constant.is_absolute():
            yield path.parent / constant.name


def _paths(model: Any) -> Iterator[Any]:
    """The attributes that name files of constants."""
    for graph in model.graph:
        for op in graph.op:
            if op.type == "FileConstant" and "file_path" in op.attr:
                yield op.attr["file_path"]


def with_whole_paths(data: bytes) -> bytes | None:
    """A model whose constants are found from every directory; None where those of this one are, or it is no model."""
    if b"FileConstant" not in data:
        return None
    try:
        model = parse_model(data)
    except FileFormatError:  # whoever reads it says so
        return None
    relative = [one for one in _paths(model) if one.s and not os.path.isabs(one.s)]
    for attribute in relative:
        attribute.s = os.path.abspath(attribute.s)
    return bytes(model.SerializeToString(deterministic=True)) if relative else None
