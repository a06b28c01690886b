"""Everything that AIR writes for people: on a full disk and in bad places an error says what, where and what to do."""

from __future__ import annotations

import errno
import os
import resource
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx

import air_backend
from air_backend import CompilerConfig, dump
from air_backend.errors import DebugFolderWarning
from air_backend.inference import readable_cache
from air_fxpasses.cli._page import write_page
from air_geir import dump as geir_dump
from air_geir import file as geir_file
from air_geir.export._relation import write_relation
from air_geir.ir import Graph
from air_graph.errors import CannotWrite
from air_graph.files import write_npy
from air_streams import StreamPlan


@contextmanager
def no_space() -> Iterator[None]:
    """No file can grow beyond a few bytes, as the system itself sees to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def plan() -> StreamPlan:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(torch.ops.aten.relu.default, (x,)),))
    return StreamPlan.of(graph)


def program() -> Graph:
    return Graph("program")


def table(path: Path) -> None:
    graph = fx.Graph()
    graph.output(())
    dump.summarize(fx.GraphModule({}, graph), (), "graph", str(path.parent))


def tensors(path: Path) -> None:
    write_npy(path, torch.ones(4), "the tensors")


def saved(path: Path) -> None:
    torch.ops.air_backend.save_tensor(torch.ones(4), str(path))


WRITERS: dict[str, Callable[[Path], Any]] = {
    "the timeline as a page": lambda path: plan().timeline().save(path.with_suffix(".html")),
    "the timeline as a trace": lambda path: plan().timeline().save(path.with_suffix(".json")),
    "the page of passes": lambda path: write_page(path, []),
    "the model": lambda path: geir_file.write(program(), path),
    "an Ascend IR graph": lambda path: geir_dump.dump(program(), path.with_suffix(".txt")),
    "the relation of ranks": lambda path: write_relation(path.parent, ["a", "b"], {}),
    "the summary of operators": table,
    "a tensor as npy": tensors,
    "a tensor of a capture": saved,
}


@pytest.mark.parametrize("name", WRITERS)
def test_on_a_full_disk_each_writer_says_so_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    WRITERS[name](place / "thing")
    for path in place.iterdir():
        path.unlink()
    with pytest.raises(CannotWrite) as failure, no_space():
        WRITERS[name](place / "thing")
    assert failure.value.errno == errno.EFBIG
    assert str(place) in str(failure.value)
    assert "free space there" in str(failure.value)
    assert os.listdir(place) == []


@pytest.mark.parametrize("name", WRITERS)
def test_where_a_file_lies_for_a_folder_each_writer_says_so(name: str, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.write_text("")
    with pytest.raises(CannotWrite, match="a file lies where a folder is wanted"):
        WRITERS[name](place / "thing")
    assert os.listdir(tmp_path) == ["place"]


@pytest.mark.parametrize("name", WRITERS)
def test_names_that_are_no_unicode_are_written(name: str, tmp_path: Path) -> None:
    place = tmp_path / os.fsdecode(b"caf\xe9")
    place.mkdir()
    if name == "a tensor of a capture":  # its path is an argument of an operator
        config = asked_for("tensors of replays", place)
        with pytest.raises(Exception, match="name a path that is Unicode text"):
            torch.compile(model, backend=air_backend.get_npu_backend(compiler_config=config))(torch.ones(4))
        return
    WRITERS[name](place / "thing")
    assert os.listdir(place)


def test_what_a_cache_holds_is_written_as_text_or_refused_alike(tmp_path: Path) -> None:
    made = tmp_path / "compiled_module"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("about.json", "{}")
        archive.writestr("graph.txt", "graph")
    with pytest.raises(CannotWrite, match="make the folder first"):
        readable_cache(made, print_output=False, file=tmp_path / "no" / "text")


def model(x: Tensor) -> Tensor:
    return torch.relu(x + 1) * 2


def asked_for(option: str, place: Path) -> CompilerConfig:
    config = CompilerConfig()
    config.mode = "reduce-overhead" if option in ("graph as Python", "tensors of replays") else "max-autotune"
    if option.startswith("graph as"):
        config.debug.graph_dump.type = "py"
        config.set("debug.graph_dump.path", str(place))
    elif option == "tensors, run eagerly":
        config.debug.data_dump.type = "npy"
        config.set("debug.data_dump.path", str(place))
    else:
        config.dump_config.enable_dump = True
        config.set("dump_config.dump_path", str(place))
    return config


OPTIONS = (
    "graph as Python",
    "graph as Ascend IR",
    "tensors, run eagerly",
    "tensors of replays",
    "tensors of the engine",
)


@pytest.mark.parametrize("option", OPTIONS)
def test_a_dump_that_was_asked_for_and_cannot_be_written_is_an_error(option: str, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    config = asked_for(option, place)
    place.rmdir()
    place.write_text("")
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=air_backend.get_npu_backend(compiler_config=config))
    with pytest.raises(Exception, match=r"cannot be written|usable|folder|directory") as failure:
        compiled(torch.ones(4))
    cause = getattr(failure.value, "inner_exception", failure.value)
    assert type(cause).__module__.startswith("air_"), type(cause)
    assert str(place) in str(cause)
    assert "advice" in str(cause)


@pytest.fixture
def debugging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """`TORCH_COMPILE_DEBUG=1`, into a folder of the test, with nothing said before."""
    from air_backend._logs import logger
    from air_backend.dump import _tree

    monkeypatch.setenv("TORCH_COMPILE_DEBUG", "1")
    monkeypatch.setattr(_tree, "get_debug_dir", lambda: str(tmp_path / "debug"))
    monkeypatch.setattr(_tree, "_said", [])
    level, handlers = logger.level, list(logger.handlers)
    yield tmp_path / "debug"
    logger.setLevel(level)
    for handler in [h for h in logger.handlers if h not in handlers]:
        logger.removeHandler(handler)
        handler.close()


@pytest.mark.parametrize("trouble", ["a file for the folder", "full"])
def test_the_debug_folder_costs_a_warning_not_the_program(
    trouble: str, debugging: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from air_backend.dump import _tree

    def refuses(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if trouble == "full":
        monkeypatch.setattr(os, "replace", refuses)
        monkeypatch.setattr(_tree._Log, "flush", refuses)
    else:
        debugging.write_text("")
    torch._dynamo.reset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DebugFolderWarning)
        compiled: Any = torch.compile(model, backend="air", mode="reduce-overhead")
        for size in (4, 5):
            torch.testing.assert_close(compiled(torch.ones(size)), model(torch.ones(size)))
    said = [w.message for w in caught if isinstance(w.message, DebugFolderWarning)]
    assert len(said) == 1
    assert str(debugging) in str(said[0])
    assert "Logging error" not in capsys.readouterr().err
    if debugging.is_dir():
        assert [p for p in debugging.rglob("*") if p.is_file() and p.name != "debug.log"] == []
