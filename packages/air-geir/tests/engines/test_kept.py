"""What the engine makes of a graph is kept: another process has nothing compiled, and what does not fit is not read."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from air_config import CompilerConfig, Context, resolve
from air_geir.engines import GeSession, NpuDevice, _kept, engine_options, packed, unpacked
from air_geir.errors import EngineError
from air_geir.ir import DataType, Graph, Placement, TensorDesc
from air_geir.program import ArgInput, GraphOutput, Program

pytest.importorskip("torch_npu")
forks = pytest.importorskip("air_sim.forks")
pytestmark = pytest.mark.npu

RUN = """
import sys, torch, torch_npu, air_geir
from air_config import CompilerConfig, Context, resolve
from air_geir.engines import kept_in
from torch.fx.experimental.proxy_tensor import make_fx
settings = resolve(CompilerConfig(), Context(device="npu"))
def f(x, y):
    return (torch.relu(x @ y) + x,)
x = torch.randn(4, 4, device="npu")
with kept_in(sys.argv[2]):
    for number, kind in enumerate(("real", "symbolic")):
        gm = make_fx(f, tracing_mode=kind)(x, x)
        run = air_geir.compile_graph(gm, [n.meta["val"] if kind == "symbolic" else x
            for n in gm.graph.nodes if n.op == "placeholder"], settings=settings, engine=sys.argv[1],
            name=f"graph_{sys.argv[3]}_{number}")
        torch.testing.assert_close(run(x, x)[0], f(x, x)[0])
"""


def told(engine: str, folder: Path, number: int) -> Counter[str]:
    """How often a process had the engine compile, and read."""
    record = folder / f"{number}.jsonl"
    variables = {"AIR_SIM_GE_RECORD": str(record)}
    done = forks.run(RUN, engine, str(folder / "ge"), str(number), variables=variables)
    assert done.returncode == 0, done.stderr
    return calls(record)


def calls(record: Path) -> Counter[str]:
    made = [json.loads(line)["call"] for line in record.read_text().splitlines()]
    return Counter(call for call in made if call in ("CompileGraph", "ReadCompiledGraph"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ["ge_session", "torchair_extension"])
def test_G18_the_second_process_has_nothing_compiled(engine: str, tmp_path: Path) -> None:
    assert told(engine, tmp_path, 0) == {"CompileGraph": 2}
    assert told(engine, tmp_path, 1) == {"ReadCompiledGraph": 2}


SQUARE = TensorDesc(DataType.FLOAT, (4, 4), placement=Placement.DEVICE)


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "record.jsonl"
    path.touch()
    monkeypatch.setenv("AIR_SIM_GE_RECORD", str(path))
    return path


def compiled(folder: Path, op: str = "Relu", sorting: str = "DFS") -> Any:
    """A graph that was compiled, or read, and gave the right numbers."""
    graph = Graph("kept")
    graph.output([graph.add(op, graph.data("x", SQUARE), outputs=SQUARE)])
    program = Program(graph, (ArgInput(0),), (GraphOutput(0),), 1)
    config = CompilerConfig()
    config.set("experimental_config.topology_sorting_strategy", sorting)
    options = engine_options(resolve(config, Context(device="npu")), program, NpuDevice.current())
    run = GeSession().compile(program, replace(options, kept_in=folder))
    x = torch.randn(4, 4, device="npu")
    torch.testing.assert_close(run((x,), ())[0], {"Relu": x.relu(), "Neg": -x}[op])
    return run


def state(run: Any) -> str:
    return str(run.stats()["kept"])


def entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def edit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def edit_note(path: Path) -> None:
    note = path.parent / _kept.NOTE
    note.write_text(note.read_text().replace('"DFS"', '"BFS"').replace('"graph"', '"grape"'))


def lose_note(path: Path) -> None:
    (path.parent / _kept.NOTE).unlink()


@pytest.mark.parametrize("spoil", [edit, truncate, edit_note, lose_note, Path.unlink])
def test_G18_a_spoilt_file_is_not_read_and_the_graph_is_compiled_anew_with_a_word(
    spoil: Any, tmp_path: Path, record: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "ge"
    assert state(compiled(folder)) == "written"
    (entry,) = entries(folder)
    (file,) = entry.glob("*.om")
    spoil(file)
    with caplog.at_level(logging.WARNING):
        assert state(compiled(folder)) == "written"
    assert f"{entry} is not used" in caplog.text
    assert calls(record) == {"CompileGraph": 2}
    assert entries(folder) == [entry], "what was spoilt has been replaced, and nothing is left over"
    assert state(compiled(folder)) == "read"
    assert calls(record) == {"CompileGraph": 2, "ReadCompiledGraph": 1}


def test_G18_what_is_kept_may_be_deleted_while_it_runs(tmp_path: Path) -> None:
    folder = tmp_path / "ge"
    compiled(folder)
    run = compiled(folder)
    shutil.rmtree(folder)
    x = torch.randn(4, 4, device="npu")
    torch.testing.assert_close(run((x,), ())[0], x.relu())
    assert state(compiled(folder)) == "written"


def test_G18_another_graph_option_chip_or_version_is_another_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch_npu.npu.utils

    folder = tmp_path / "ge"
    states = [
        state(compiled(folder)),
        state(compiled(folder, op="Neg")),
        state(compiled(folder, sorting="BFS")),
    ]
    changes: list[tuple[Any, str, Any]] = [
        (_kept, "__version__", "0"),
        (torch_npu.npu.utils, "get_cann_version", lambda: "0.0.0"),
        (torch.get_device_module("npu"), "get_device_name", lambda: "another"),
    ]
    for holder, name, value in changes:
        with monkeypatch.context() as patch:
            patch.setattr(holder, name, value)
            states.append(state(compiled(folder)))
    with monkeypatch.context() as patch:
        patch.setenv("ASCEND_CUSTOM_OPP_PATH", "/nowhere")
        states.append(state(compiled(folder)))
    assert states == ["written"] * 7
    assert len(entries(folder)) == 7
    assert state(compiled(folder)) == "read"


def test_G18_a_switch_file_counts_by_what_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "switches.json"
    digests = []
    for text in ("{}", "[]", "{}"):
        path.write_text(text)
        digests.append(_kept._digest_of_option(str(path)))
    assert digests[0] == digests[2] != digests[1]


def test_G18_a_folder_that_others_may_write_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "ge"
    compiled(folder)
    folder.chmod(0o777)
    with caplog.at_level(logging.WARNING):
        assert state(compiled(folder)).startswith("not kept: ")
    assert "is compiled and not kept" in caplog.text


def test_G18_of_two_processes_that_write_at_once_the_first_one_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ge"
    compiled(folder)
    (entry,) = entries(folder)
    note = (entry / _kept.NOTE).stat().st_mtime_ns
    with monkeypatch.context() as patch:
        patch.setattr(_kept, "is_sound", lambda *_: False)  # as if it had come after the look
        assert state(compiled(folder)) == "kept by another process"
    assert entries(folder) == [entry]
    assert (entry / _kept.NOTE).stat().st_mtime_ns == note


def test_G18_a_file_that_the_engine_refuses_is_an_error_and_the_next_call_compiles(tmp_path: Path) -> None:
    folder = tmp_path / "ge"
    compiled(folder)
    (entry,) = entries(folder)
    (file,) = entry.glob("*.om")
    truncate(file)
    note = json.loads((entry / _kept.NOTE).read_text())
    note["files"] = {file.name: _kept._digest(file)}
    (entry / _kept.NOTE).write_text(json.dumps(note))
    with pytest.raises(EngineError, match="is no compiled graph"):
        compiled(folder)
    assert state(compiled(folder)) == "written"


def test_G18_an_entry_goes_to_another_folder_as_bytes(tmp_path: Path, record: Path) -> None:
    compiled(tmp_path / "ge")
    (entry,) = entries(tmp_path / "ge")
    data = packed(entry)
    assert data == packed(entry), "the same files are the same bytes"
    there = unpacked(data, tmp_path / "there")
    assert there == tmp_path / "there" / entry.name
    assert state(compiled(tmp_path / "there")) == "read"
    assert calls(record) == {"CompileGraph": 1, "ReadCompiledGraph": 1}
    assert unpacked(data, tmp_path / "there") == there, "what is there already stays"


def rewritten(data: bytes, change: Callable[[dict[str, bytes]], None]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return target.getvalue()


def climbs(files: dict[str, bytes]) -> None:
    note = json.loads(files[_kept.NOTE])
    files["../../outside"] = b"code"
    note["files"]["../../outside"] = hashlib.sha256(b"code").hexdigest()
    files[_kept.NOTE] = json.dumps(note).encode()


def edits(files: dict[str, bytes]) -> None:
    name = next(name for name in files if name != _kept.NOTE)
    files[name] = files[name][:-1] + b"?"


def loses_its_note(files: dict[str, bytes]) -> None:
    del files[_kept.NOTE]


@pytest.mark.parametrize("change", [climbs, edits, loses_its_note])
def test_G18_bytes_that_are_no_whole_entry_leave_nothing(
    change: Callable[[dict[str, bytes]], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    compiled(tmp_path / "ge")
    (entry,) = entries(tmp_path / "ge")
    with caplog.at_level(logging.WARNING):
        assert unpacked(rewritten(packed(entry), change), tmp_path / "a" / "there") is None
    assert "is not taken over" in caplog.text
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "outside").exists()


def test_G18_bytes_cut_short_leave_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    compiled(tmp_path / "ge")
    (entry,) = entries(tmp_path / "ge")
    with caplog.at_level(logging.WARNING):
        assert unpacked(packed(entry)[:-30], tmp_path / "there") is None
    assert "is not taken over" in caplog.text
    assert not (tmp_path / "there").exists()


def test_G18_damaged_bytes_leave_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    compiled(tmp_path / "ge")
    (entry,) = entries(tmp_path / "ge")
    data = bytearray(packed(entry))
    data[data.find(b"PK\x01\x02") + 10] ^= 0xFF  # the way the first file is packed
    with caplog.at_level(logging.WARNING):
        assert unpacked(bytes(data), tmp_path / "there") is None
    assert "is not taken over" in caplog.text
    assert not (tmp_path / "there").exists()
