"""Inputs in internal formats: described as they lie, in every call, or refused by name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from air_config import CompilerConfig, Context, resolve
from air_geir.engines import EngineOptions, GeSession, NpuDevice, TorchairExtension, _formats, engine_options
from air_geir.engines._formats import InputFormats
from air_geir.errors import EngineError
from air_geir.ir import DataType, Format, Graph, Placement, TensorDesc
from air_geir.program import ArgInput, GraphOutput, Program

SQUARE = TensorDesc(DataType.FLOAT16, (32, 32), placement=Placement.DEVICE)
Laid = dict[int, Format]


def product() -> Program:
    graph = Graph("product")
    x, w = graph.data("x", SQUARE), graph.data("w", SQUARE)
    graph.output([graph.add("MatMul", x, w, outputs=SQUARE)])
    return Program(graph, (ArgInput(0), ArgInput(1, parameter=True)), (GraphOutput(0),), 2)


@pytest.fixture
def laid(monkeypatch: pytest.MonkeyPatch) -> Laid:
    """Address -> format, where that is not ND."""
    formats: Laid = {}
    monkeypatch.setattr(_formats, "_format_of", lambda x: formats.get(x.data_ptr(), Format.ND))
    return formats


def test_a_weight_is_described_as_it_lies_in_this_call(laid: Laid) -> None:
    made = product()
    found, (_, weight) = InputFormats(made), made.graph.inputs
    x, dense, other = (torch.ones(32, 32) for _ in range(3))
    assert not found.describe([x, dense])
    laid[other.data_ptr()] = Format.FRACTAL_NZ
    assert found.describe([x, other])
    assert weight.output.desc.format is Format.FRACTAL_NZ
    assert weight.output.desc.origin_shape == (32, 32)
    assert not found.describe([x.clone(), other])
    assert found.describe([x, dense])
    assert weight.output.desc == SQUARE


def test_formats_are_asked_for_where_an_input_lies_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def dense(tensor: torch.Tensor) -> Format:
        asked.append(tensor.data_ptr())
        return Format.ND

    monkeypatch.setattr(_formats, "_format_of", dense)
    found = InputFormats(product())
    x, y, weight = (torch.ones(32, 32) for _ in range(3))
    for given in (x, x, y):
        found.describe([given, weight])
    assert asked == [x.data_ptr(), weight.data_ptr(), y.data_ptr()]


def test_an_engine_of_dense_inputs_refuses_every_call_with_another_format_by_name(laid: Laid) -> None:
    found = InputFormats(product())
    x, weight = torch.ones(32, 32), torch.ones(32, 32)
    found.require_dense([x, x], "ge_session")
    laid[weight.data_ptr()] = Format.FRACTAL_NZ
    for _ in range(2):
        with pytest.raises(EngineError, match="input w lies in the internal format FRACTAL_NZ") as failure:
            found.require_dense([x, weight], "ge_session")
        assert "torchair_extension" in failure.value.advice
    found.require_dense([x, x], "ge_session")


@pytest.fixture
def internal() -> Iterator[None]:
    npu = torch.get_device_module("npu")
    npu.config.allow_internal_format = True
    yield
    npu.config.allow_internal_format = False


def options(made: Program) -> EngineOptions:
    return engine_options(resolve(CompilerConfig(), Context(device="npu")), made, NpuDevice.current())


def halves() -> list[torch.Tensor]:
    return [torch.randn(32, 32).half().to("npu") for _ in range(2)]


@pytest.mark.npu("only torch_npu has tensors of internal formats")
def test_G45_a_graph_computes_the_same_however_its_weight_lies_in_a_call(internal: None) -> None:
    import torch_npu

    made, (x, dense) = product(), halves()
    run = TorchairExtension().compile(made, options(made))
    inner = torch_npu.npu_format_cast(dense, 29)
    for weight, kind in ((dense, "ND"), (inner, "FRACTAL_NZ"), (inner, "FRACTAL_NZ"), (dense, "ND")):
        (found,) = run([x, weight], [None])
        torch.testing.assert_close(found, x @ dense, rtol=1e-3, atol=1e-2)
        assert made.graph.inputs[1].output.desc.format.name == kind
    run.close()


@pytest.mark.npu("only torch_npu has tensors of internal formats")
def test_G45_a_later_call_with_a_weight_that_the_engine_cannot_read_is_refused(internal: None) -> None:
    import torch_npu

    made, (x, dense) = product(), halves()
    run = GeSession().compile(made, options(made))
    torch.testing.assert_close(run([x, dense], [None])[0], x @ dense, rtol=1e-3, atol=1e-2)
    with pytest.raises(EngineError, match="FRACTAL_NZ"):
        run([x, torch_npu.npu_format_cast(dense, 29)], [None])
    run.close()
