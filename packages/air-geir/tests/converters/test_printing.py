"""A print inside a graph: every run prints, in the order of the program, with the values of that run."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from air_config import CompilerConfig, Context, resolve
from air_geir import Executable, compile_graph
from air_geir.proof import trace

SCHEMA = "print(Tensor[] tensors, str template, str hole, int size, bool detail) -> ()"


@pytest.fixture(scope="module", autouse=True)
def operator() -> Any:
    """The operator of air-backend, or one with its schema where that package is not loaded."""
    if torch._C._jit_get_schemas_for_operator("air_backend::print"):
        yield None
        return
    library = torch.library.Library("air_backend", "FRAGMENT")
    library.define(SCHEMA)
    library.impl("print", lambda *args: None, "CompositeExplicitAutograd")
    torch.library.register_fake("air_backend::print", lambda *args: None, lib=library)
    torch.fx.node.has_side_effect(torch.ops.air_backend.print.default)
    yield library
    library._destroy()


def compiled(example: torch.Tensor) -> Executable:
    def step(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch.ops.air_backend.print([y], "twice: {}", "{}", 2, False)
        torch.ops.air_backend.print([x, y], "first {0} of {0}; then {0} of {0}", "{0}", -1, True)
        return y + 1

    return compile_graph(trace(step, [example]), [example], engine="reference")


def test_G36_a_print_becomes_text_and_an_output_that_runs_each_time(
    capfd: pytest.CaptureFixture[str],
) -> None:
    run = compiled(torch.ones(5))
    types = [n.op_type for n in run.program.graph]
    assert types.count("StringFormat") == types.count("PrintV2") == 2
    first, second = run.program.graph.of_type("PrintV2")
    assert first.attr("_kernel") == "extend"
    assert first in second.control_inputs
    assert second in run.program.graph.net_output.control_inputs
    for start in (0.0, 1.0):
        x = torch.arange(5.0) + start
        assert torch.equal(run(x)[0], x * 2 + 1)
        shown = capfd.readouterr().out.splitlines()
        ends = [f"{float(v):.9g}" for v in x * 2]
        assert shown[0] == f"twice: [{ends[0]} {ends[1]} ... {ends[3]} {ends[4]}]"
        ones = " ".join(f"{float(v):.9g}" for v in x)
        assert shown[1] == f"first [{ones}] of [5]; then [{' '.join(ends)}] of [5]"


def test_half_precision_is_printed_as_float32() -> None:
    run = compiled(torch.ones(5, dtype=torch.bfloat16))
    (text, _) = run.program.graph.of_type("StringFormat")
    assert text.inputs[0] is not None
    assert text.inputs[0].node.op_type == "Cast"


@pytest.mark.npu
@pytest.mark.filterwarnings("ignore")
def test_G36_a_print_runs_each_time_on_the_graph_engine(
    capfd: pytest.CaptureFixture[str], device_engine: str
) -> None:
    """air-sim formats nothing: its engine shows the first tensor of a print as torch writes it."""
    pytest.importorskip("torch_npu")

    def step(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch.ops.air_backend.print([y], "twice: {}", "{}", 2, False)
        return y + 1

    example = torch.ones(3)
    settings = resolve(CompilerConfig(), Context(device="npu"))
    run = compile_graph(trace(step, [example]), [example.to("npu")], settings=settings)
    assert run.engine == device_engine
    capfd.readouterr()
    for start in (11.0, 21.0):
        x = torch.arange(3.0) + start
        torch.testing.assert_close(run(x.to("npu"))[0].cpu(), x * 2 + 1)
        torch.npu.synchronize()  # type: ignore[attr-defined]  # torch_npu adds it
        shown = [word for word in capfd.readouterr().err.split() if word.isdecimal()]
        assert shown[:3] == [str(int(v)) for v in x * 2]
