"""The table of aclnn functions: complete, well-formed, and loud about what it lacks."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

pytest.importorskip("torch_npu", exc_type=ImportError)

import torch
import torch_npu

import air_sim
from air_sim.opgen import defined_in

NATIVE = Path(air_sim.__file__).parent / "native/opapi"


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    active = air_sim.active()
    if active is None:
        pytest.skip("runs with --sim")
    loaded = ctypes.CDLL(str(active.folder / "libopapi.so"))
    for name in ("air_sim_aclnn_names", "air_sim_aclnn_check"):
        getattr(loaded, name).restype = ctypes.c_char_p
    return loaded


def exported() -> set[str]:
    text = (NATIVE / "names.inc").read_text()
    return set(re.findall(r"\bNAME\(\d+, (\w+)\)", text))


def test_every_definition_parses_and_names_operators_of_this_libtorch(library: ctypes.CDLL) -> None:
    assert library.air_sim_aclnn_check().decode() == ""


def test_at_least_600_of_the_functions_that_torch_npu_names_are_implemented(library: ctypes.CDLL) -> None:
    implemented = {name.removeprefix("aclnn") for name in library.air_sim_aclnn_names().decode().split()}
    assert implemented <= exported()
    wheel = b"".join(p.read_bytes() for p in (Path(torch_npu.__file__).parent / "lib").glob("*.so"))
    assert len([name for name in implemented if f"aclnn{name}\0".encode() in wheel]) >= 600


def test_the_generator_finds_the_definitions_that_the_library_has(library: ctypes.CDLL) -> None:
    sources = [*NATIVE.glob("*.cpp"), NATIVE / "structural.inc"]
    implemented = {name.removeprefix("aclnn") for name in library.air_sim_aclnn_names().decode().split()}
    assert implemented <= defined_in(sources)


def test_every_exported_name_has_both_functions(library: ctypes.CDLL) -> None:
    for name in exported():
        assert getattr(library, f"aclnn{name}")
        assert getattr(library, f"aclnn{name}GetWorkspaceSize")


def test_a_missing_function_is_an_error_that_names_it_and_says_how_to_add_it() -> None:
    x = torch.randn(2, 4, 8).npu()
    with pytest.raises(RuntimeError, match=r"(?s)aclnn\w+: air-sim does not implement .* native/opapi"):
        torch_npu.npu_mhc_post(x, None, x, x)


def update_out_of_range() -> None:
    index = torch.tensor([[9]]).npu()
    torch_npu.npu_scatter_nd_update_(torch.zeros(4, 4).npu(), index, torch.ones(1, 4).npu())
    torch.npu.synchronize()


def test_an_index_out_of_range_is_an_error_of_the_function() -> None:
    with pytest.raises(RuntimeError, match="aclnnScatterNdUpdate"):
        update_out_of_range()
    assert torch.ones(2).npu().sum().item() == 2
