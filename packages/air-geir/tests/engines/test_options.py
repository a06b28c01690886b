"""Settings as options of the Graph Engine."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from air_config import CompilerConfig, Context, Settings, resolve
from air_geir.engines import EngineOptions, PlainDevice, _extension, dump_config, engine_options
from air_geir.engines._options import tensor_dump
from air_geir.errors import OptionError
from air_geir.ir import DataType, Graph, Placement, TensorDesc, symbol
from air_geir.program import ArgInput, GraphOutput, Program, SymInput
from air_graph.errors import CannotWrite


def settings(**changes: object) -> Settings:
    config = CompilerConfig()
    for path, value in changes.items():
        *groups, last = path.split("__")
        target: object = config
        for group in groups:
            target = getattr(target, group)
        setattr(target, last, value)
    return resolve(config, Context(device="npu"))


def program(*, assigned: bool = False, size: int = 4) -> Program:
    graph = Graph("g")
    desc = TensorDesc(DataType.FLOAT, (symbol("s0"), size), placement=Placement.DEVICE)
    x = graph.data("x", desc)
    w = graph.data("w", TensorDesc(DataType.FLOAT, (2, size), placement=Placement.DEVICE))
    graph.data("n", TensorDesc(DataType.INT64, (), placement=Placement.HOST))
    graph.output([graph.add("Abs", x, outputs=desc), graph.add("Neg", w, outputs=w.desc)])
    inputs = (ArgInput(0), ArgInput(2, parameter=True), SymInput(symbol("s0")))
    made = Program(graph, inputs, (GraphOutput(0),), 3, hints={"s0": 5})
    return replace(made, assigned={1: 2}) if assigned else made


def options(made: Program | None = None, **changes: object) -> EngineOptions:
    return engine_options(settings(**changes), made or program(), PlainDevice())


def test_what_is_passed_by_default() -> None:
    made = options()
    assert made.session == {
        "ge.exec.deviceId": "0",
        "ge_run_with_torch_npu": "1",
        "ge.exec.allow_hf32": "10",
        "ge.deterministic": "0",
        "ge.deterministicLevel": "0",
        "ge.exec.staticMemoryPolicy": "2",
        "ge.opSelectImplmode": "high_precision",
        "ge.exec.enableEngineParallel": "0",
        "ge.enableSingleStream": "false",
        "ge.oo.level": "O3",
        "ge.exportCompileStat": "2",
    }
    assert made.graph == {
        "ge.exec.atomicCleanPolicy": "1",
        "ge.deterministic": "0",
        "ge.deterministicLevel": "0",
        "ge.jit_compile": "2",
        "ge.topoSortingMode": "1",
        "ge.featureBaseRefreshable": "0",
        "ge.tiling_schedule_optimize": "0",
        "ge.exec.outputReuseMemIndexes": "0,1",
        "ge.exec.allTensorNotEmpty": "1",
        "ge.inputHintShape": "0:[5, 4];1:[2, 4];2:[]",
        "frozenInput": "0,0,0",
    }


@pytest.mark.parametrize(
    ("setting", "value", "key", "text"),
    [
        ("experimental_config__cc_parallel_enable", True, "ge.exec.enableEngineParallel", "1"),
        ("ge_config__enable_single_stream", True, "ge.enableSingleStream", "true"),
        ("experimental_config__jit_compile", "auto", "ge.jit_compile", "2"),
        ("ge_config__oo_level", "O1", "ge.oo.level", "O1"),
        ("ge_config__oo_level", "O1", "ge.topoSortingMode", "3"),
        ("ge_config__oo_constant_folding", True, "ge.oo.constantFolding", "true"),
        ("ge_config__oo_dead_code_elimination", False, "ge.oo.deadCodeElimination", "false"),
        ("ge_config__export_compile_stat", "0", "ge.exportCompileStat", "0"),
        ("ge_config__export_compile_stat", "1", "ge.exportCompileStat", "1"),
        ("ge_config__aicore_num", "24|48", "ge.aicoreNum", "24|48"),
        ("ge_config__optimization_switch", "A:on;B:off", "ge.optimizationSwitch", "A:on;B:off"),
        ("experimental_config__topology_sorting_strategy", "BFS", "ge.topoSortingMode", "0"),
        ("experimental_config__topology_sorting_strategy", "RDFS", "ge.topoSortingMode", "2"),
        ("experimental_config__topology_sorting_strategy", "StableRDFS", "ge.topoSortingMode", "3"),
        ("experimental_config__memory_efficiency", True, "ge.featureBaseRefreshable", "1"),
        ("experimental_config__tiling_schedule_optimize", True, "ge.tiling_schedule_optimize", "1"),
        ("experimental_config__static_model_ops_lower_limit", 7, "ge.exec.static_model_ops_lower_limit", "7"),
        (
            "experimental_config__static_model_ops_lower_limit",
            -1,
            "ge.exec.static_model_ops_lower_limit",
            "-1",
        ),
        ("experimental_config__frozen_parameter", True, "frozenInput", "0,1,0"),
    ],
)
def test_G14_G25_G26_G28_G29_G30_G31_G38_G40_G41_G42_G43_a_setting_becomes_its_key(
    setting: str, value: object, key: str, text: str
) -> None:
    made = engine_options(settings(**{setting: value}), program(), PlainDevice())
    assert {**made.session, **made.graph}[key] == text


def test_G14_a_weight_that_is_copied_for_each_call_is_not_frozen() -> None:
    strided = program()
    strided.inputs = tuple(
        replace(b, contiguous=False) if isinstance(b, ArgInput) else b for b in strided.inputs
    )
    chosen = settings(experimental_config__frozen_parameter=True)
    assert engine_options(chosen, strided, PlainDevice()).graph["frozenInput"] == "0,0,0"


def test_G27_a_fusion_switch_file_is_passed_by_path(tmp_path: Path) -> None:
    file = tmp_path / "fusion.cfg"
    file.write_text("{}")
    made = options(fusion_config__fusion_switch_file=str(file))
    assert made.session["ge.fusionSwitchFile"] == str(file)


def test_G24_tuning_is_asked_for_with_its_folder_and_file(tmp_path: Path) -> None:
    assert "aoe_mode" not in options().graph
    file = tmp_path / "aoe.cfg"
    file.write_text("")
    made = options(
        aoe_config__aoe_mode="2", aoe_config__work_path=str(tmp_path), aoe_config__aoe_config_file=str(file)
    ).graph
    assert (made["aoe_mode"], made["work_path"], made["aoe_config_file"]) == ("2", str(tmp_path), str(file))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("experimental_config__jit_compiled", "auto"),
        ("experimental_config__jit_compile", "sometimes"),
        ("export__experimental__auto_atc_config", True),
        ("ge_config__oo_level", "O2"),
        ("aoe_config__aoe_mode", "7"),
        ("experimental_config__static_model_ops_lower_limit", 1),
    ],
)
def test_G02_an_option_or_a_value_that_does_not_exist_is_refused_before_anything_is_compiled(
    path: str, value: object
) -> None:
    with pytest.raises((ValueError, AttributeError), match=path.rpartition("__")[2]):
        settings(**{path: value})


def test_tied_outputs_are_named_with_their_inputs() -> None:
    made = options(program(assigned=True))
    assert made.graph["ge.exec.outputReuseMemIndexes"] == "0"
    assert made.graph["ge.exec.outputReuseInputMemIndexes"] == "1,1"


def test_an_empty_tensor_is_announced() -> None:
    assert options(program(size=0)).graph["ge.exec.allTensorNotEmpty"] == "0"


def test_several_transfers_force_a_stable_order() -> None:
    made = program()
    for number in range(2):
        with made.graph.inserting_before(made.graph.net_output):
            made.graph.add("HcomSend", made.graph.inputs[0], group="g", sr_tag=number, dest_rank=1)
    assert options(made).graph["ge.topoSortingMode"] == "3"


def test_a_dump_becomes_the_device_s_configuration(tmp_path: Path) -> None:
    assert dump_config(settings(), "g") is None
    made = dump_config(
        settings(
            dump_config__enable_dump=True,
            dump_config__dump_path=str(tmp_path),
            dump_config__dump_layer="Add_1 MatMul",
            dump_config__dump_step="0|3-5",
        ),
        "g",
    )
    assert made is not None
    assert made["dump"]["dump_list"] == [{"model_name": "g", "layer": ["Add_1", "MatMul"]}]
    assert made["dump"]["dump_path"] == str(tmp_path)
    assert made["dump"]["dump_step"] == "0|3-5"


def test_steps_of_a_dump_that_end_before_they_begin_are_refused(tmp_path: Path) -> None:
    chosen = settings(
        dump_config__enable_dump=True, dump_config__dump_path=str(tmp_path), dump_config__dump_step="0|5-3"
    )
    for reads in (lambda: dump_config(chosen, "g"), lambda: tensor_dump(chosen)):
        with pytest.raises(OptionError, match="5-3 ends before it begins"):
            reads()


class Device:
    """What reads a configuration, as the device does: in the call."""

    def __init__(self) -> None:
        self.read: list[tuple[str, object]] = []

    def AclmdlSetDump(self, path: str) -> None:
        self.read.append((path, json.loads(Path(path).read_text())))


def test_a_graph_that_asks_for_another_dump_than_the_device_has_is_told_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_extension, "load", Device)
    monkeypatch.setattr(_extension, "unavailable", lambda: None)
    monkeypatch.setattr(_extension, "DUMP", _extension.DeviceDump())

    def asked(name: str, mode: str = "all") -> dict[str, Any]:
        entry = {"model_name": name, "layer": [f"Relu_of_{name}"]}
        return {"dump": {"dump_path": str(tmp_path), "dump_mode": mode, "dump_list": [entry]}}

    _extension.start_dump(None, None, "before")
    _extension.start_dump(asked("first"), None, "first")
    _extension.start_dump(asked("second"), None, "second")
    assert not caplog.records
    for name in ("third", "fourth"):
        _extension.start_dump(None, None, name)
    _extension.start_dump(asked("fifth", "input"), None, "fifth")
    none, another = (record.getMessage() for record in caplog.records)
    assert none.startswith("third asks for no dump, and second has set one")
    assert another.startswith("fifth asks for another dump, and second has set one")


def test_the_configuration_of_a_dump_is_gone_once_the_device_has_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device()
    monkeypatch.setattr(_extension, "load", lambda: device)
    monkeypatch.setattr(_extension, "unavailable", lambda: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    asked = {"dump": {"dump_path": str(tmp_path / "dump")}}
    _extension.start_dump(asked, None)
    ((path, read),) = device.read
    assert read == asked
    assert not Path(path).exists()
    assert os.listdir(tmp_path / "temporary") == []
    own = tmp_path / "own.json"
    own.write_text("{}")
    _extension.start_dump(asked, str(own))
    assert own.exists(), "the user's own file stays"
    (tmp_path / "dump").rmdir()
    (tmp_path / "dump").write_text("")
    with pytest.raises(CannotWrite, match="a file lies where a folder is wanted"):
        _extension.start_dump(asked, None)
    assert os.listdir(tmp_path / "temporary") == []
