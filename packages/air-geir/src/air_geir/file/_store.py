"""Reading and writing `.air` files, weights in line or beside the file."""

from __future__ import annotations

from pathlib import Path

from air_geir.errors import FileFormatError
from air_geir.file._decode import decode_model, parse_model
from air_geir.file._encode import encode_model
from air_geir.file._outside import ConstantFiles
from air_geir.ir import Graph
from air_geir.verify import SIZE_LIMIT, raise_for, verify_model
from air_graph.files import write_bytes

INLINE_LIMIT = (2048 - 200) * 2**20
"""Bytes of constants that still fit into one file, with room for the graph itself."""


def to_bytes(graph: Graph) -> bytes:
    """The model as bytes: the same graph gives the same bytes."""
    data = encode_model(graph)
    if len(data) > SIZE_LIMIT:
        raise FileFormatError(
            f"the model takes {len(data)} bytes, the loader reads less than 2 GiB",
            advice="write it with write(graph, path): large constants then go into files beside it",
        )
    return data


def from_bytes(data: bytes, *, verify: bool = True) -> Graph:
    """The graph in these bytes. Broken rules of the loader are an error that lists them.

    `verify=False` skips rules that do not keep the graph from being built; use it to look at a broken file.
    """
    model = parse_model(data)
    if verify:
        raise_for(verify_model(model, size=len(data)), "this model")
    try:
        return decode_model(model)
    except (KeyError, IndexError, ValueError) as error:
        raise FileFormatError(
            f"the model cannot be read: {error!r}", advice="read it with verify=True"
        ) from error


def write(
    graph: Graph, path: str | Path, *, inline_limit: int = INLINE_LIMIT, beside: str | Path | None = None
) -> list[Path]:
    """Write a `.air` file; gives every file written.

    When the constants take more than `inline_limit` bytes, each goes into a raw file beside the model (or in the
    folder `beside`) and a FileConstant stands for it. Its path is the one given here, so a relative path means that
    whoever loads the model does so from the same directory. It is named after the constant, and after the model as
    well where a file of that name belongs to another constant, or to another model of the folder.
    """
    target = Path(path)
    total = sum(n.attr("value").nbytes for part in graph.graphs() for n in part.of_type("Const"))
    files = ConstantFiles(Path(beside) if beside else target.parent, target) if total > inline_limit else None
    data = encode_model(graph, files)
    if len(data) > SIZE_LIMIT:
        raise FileFormatError(
            f"the model takes {len(data)} bytes even without its constants, the limit is 2 GiB",
            advice="split the model into several graphs",
        )
    try:
        write_bytes(target, data, "the model")
    except BaseException:
        if files is not None:
            files.discard()
        raise
    return [target, *(files.written if files else ())]


def read(path: str | Path, *, verify: bool = True) -> Graph:
    """The graph in a `.air` file."""
    return from_bytes(Path(path).read_bytes(), verify=verify)
