"""The stand-ins for atc and pyACL, called as a program of CANN's documents calls them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import air_sim
from air_sim import pyacl
from air_sim.pyacl import mdl, rt
from air_sim.tools import atc

pytestmark = pytest.mark.npu


def text_field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def relu_model(*sizes: int, op_type: bytes = b"Relu") -> bytes:
    """The bytes of an .air file with one Relu, written out field by field: x -> y."""
    shape = b"".join(varint(1 << 3) + varint(size & (2**64 - 1)) for size in sizes)
    desc = varint(2 << 3) + varint(1) + text_field(3, shape)
    data = text_field(1, b"x") + text_field(2, b"Data") + text_field(34, desc)
    relu = (
        text_field(1, b"y")
        + text_field(2, op_type)
        + text_field(5, b"x:0")
        + text_field(33, desc)
        + text_field(34, desc)
    )
    end = text_field(1, b"out") + text_field(2, b"NetOutput") + text_field(5, b"y:0") + text_field(33, desc)
    return text_field(7, text_field(1, b"g") + b"".join(text_field(6, op) for op in (data, relu, end)))


def run_atc(folder: Path, *words: str, model: bytes | None = None) -> subprocess.CompletedProcess[str]:
    (folder / "m.air").write_bytes(relu_model(2, 3) if model is None else model)
    command = ["atc", "--framework=1", "--model=m.air", "--output=made", "--soc_version=Ascend910B1", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_graph_with_an_operator_that_a_chip_has_no_program_for_is_refused_for_that_chip(
    tmp_path: Path,
) -> None:
    model = relu_model(2, 3, op_type=b"GroupNormV2")
    refused = run_atc(tmp_path, model=model)
    assert refused.returncode != 0
    assert (
        "No supported Ops kernel and engine are found for [y], optype [GroupNormV2]."
        in refused.stdout + refused.stderr
    )
    newer = run_atc(tmp_path, "--soc_version=Ascend950", model=model)  # which misses its other inputs there
    assert "No supported Ops kernel" not in newer.stdout + newer.stderr


def test_an_offline_model_is_loaded_described_and_run_on_memory_of_the_device(
    device: str, tmp_path: Path
) -> None:
    done = run_atc(tmp_path)
    assert (done.returncode, done.stdout) == (0, "ATC run success\n"), done.stderr
    assert pyacl.init() == 0
    assert rt.set_device(0) == 0
    model, failed = mdl.load_from_file(str(tmp_path / "made.om"))
    assert failed == 0
    desc = mdl.create_desc()
    assert mdl.get_desc(desc, model) == 0
    assert (mdl.get_num_inputs(desc), mdl.get_num_outputs(desc)) == (1, 1)
    assert mdl.get_input_dims(desc, 0) == ({"name": "x", "dimCount": 2, "dims": [2, 3]}, 0)
    assert mdl.get_output_dims(desc, 0)[0]["dims"] == [2, 3]
    assert (mdl.get_input_size_by_index(desc, 0), mdl.get_input_data_type(desc, 0)) == (24, 0)
    assert mdl.get_input_dims(desc, 1)[1] != 0
    x, y = torch.randn(2, 3), torch.empty(2, 3)
    sets, blocks = [], []
    for _ in range(2):
        block, failed = rt.malloc(24, 0)
        assert failed == 0
        blocks.append(block)
        sets.append(mdl.create_dataset())
        assert mdl.add_dataset_buffer(sets[-1], pyacl.create_data_buffer(block, 24)) == (sets[-1], 0)
    assert rt.memcpy(blocks[0], 24, x.data_ptr(), 24, 1) == 0
    stream, failed = rt.create_stream()
    assert failed == 0
    assert mdl.execute_async(model, sets[0], sets[1], stream) == 0
    assert rt.synchronize_stream(stream) == 0
    assert rt.memcpy(y.data_ptr(), 24, blocks[1], 24, 2) == 0
    assert torch.equal(y, x.relu())
    short = mdl.create_dataset()
    mdl.add_dataset_buffer(short, pyacl.create_data_buffer(blocks[0], 20))
    assert mdl.execute(model, short, sets[1]) != 0
    assert "inputs 0 has 20 bytes, the model needs 24" in pyacl.get_recent_err_msg()
    assert mdl.unload(model) == 0
    assert mdl.execute(model, sets[0], sets[1]) != 0
    assert mdl.destroy_desc(desc) == 0


def test_the_module_acl_is_found_where_CANN_has_it() -> None:
    assert air_sim.active() is not None
    code = "import acl, os; print(acl.get_soc_name(), acl.mdl.create_dataset() != 0)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.stdout == "Ascend910B1 True\n", done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--colour=red",), "unrecognized arguments: --colour=red"),
        (("--framework=5",), "invalid choice: '5'"),
        (("--deterministic=2",), "invalid choice: '2'"),
        (("--model=none.air",), "none.air is not a file"),
        (("--fusion_switch_file=none.cfg",), "none.cfg is not a file"),
        (("--output=none/made",), "there is no such folder"),
        (("--input_shape=z:2,3",), "names z, which the model has no input of"),
        (("--input_shape=x:4,3",), "does not fit the input"),
        (("--input_shape=x:1~4,3",), "'1~4' is no size"),
    ],
)
def test_what_atc_does_not_take_is_refused_and_nothing_is_written(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    done = run_atc(tmp_path, *words)
    assert done.returncode == 1
    assert said in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["m.air"]


@pytest.mark.parametrize(
    "model", [b"", b"\xff\xff", relu_model(2, 3)[:-9]], ids=["empty", "no message", "cut"]
)
def test_a_file_that_is_no_model_is_refused(model: bytes, tmp_path: Path) -> None:
    done = run_atc(tmp_path, model=model)
    assert done.returncode == 1
    assert "ATC run failed: " in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["m.air"]


def test_open_sizes_are_given_as_an_option(tmp_path: Path) -> None:
    done = run_atc(tmp_path, model=relu_model(-1, 3))
    assert "input x has open sizes: give --input_shape" in done.stderr
    done = run_atc(tmp_path, "--input_shape=x:5,3", model=relu_model(-1, 3))
    assert done.returncode == 0, done.stderr
    model, failed = mdl.load_from_file(str(tmp_path / "made.om"))
    assert failed == 0
    desc = mdl.create_desc()
    mdl.get_desc(desc, model)
    assert mdl.get_output_dims(desc, 0)[0]["dims"] == [5, 3]
    mdl.unload(model)


def test_the_program_is_the_one_beside_this_package() -> None:
    script = Path(os.environ["ASCEND_HOME_PATH"]) / "bin" / "atc"
    assert str(Path(atc.__file__)) in script.read_text(encoding="utf-8")
