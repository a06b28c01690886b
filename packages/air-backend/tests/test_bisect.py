"""`bisect` and `air bisect`: each kind of wrong part is planted in a right program, and is named."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.utils._python_dispatch import TorchDispatchMode

import air_backend as tng
import air_geir
from air_aclgraph import HostRuntime
from air_backend import CompilerConfig, bisect
from air_backend.cli import main
from air_backend.errors import CannotCompare, ResultChanges
from air_geir.converters import find_converter, unregister

aten = torch.ops.aten


def config(mode: str = "reduce-overhead", **options: Any) -> CompilerConfig:
    made = CompilerConfig()
    made.set("mode", mode)
    for path, value in options.items():
        made.set(path.replace("__", "."), value)
    return made


def layers(x: Tensor) -> Tensor:
    y = torch.relu(x) + 1
    return (y * 2).tanh().sum(-1)


def add_becomes_sub(gm: GraphModule, example_inputs: Any, config: Any) -> None:
    for node in gm.graph.find_nodes(op="call_function", target=aten.add.Tensor):
        node.target = aten.sub.Tensor


def test_N15_a_right_program_is_called_right() -> None:
    for mode in ("reduce-overhead", "max-autotune"):
        verdict = bisect(layers, torch.randn(4, 4), compiler_config=config(mode))
        assert verdict.right, str(verdict)
        assert str(verdict).startswith("right")


def wrong_for_columns(gm: GraphModule, example_inputs: Any, config: Any) -> None:
    if example_inputs[0].stride(-1) != 1:
        add_becomes_sub(gm, example_inputs, config)


def test_N15_trials_are_called_with_tensors_that_lie_as_the_callers_do() -> None:
    wrong = config(post_grad_custom_post_pass=wrong_for_columns)
    assert bisect(layers, torch.randn(4, 4), compiler_config=wrong).right
    verdict = bisect(layers, torch.randn(4, 4).t(), compiler_config=wrong)
    assert (verdict.system, verdict.part) == ("air", "fx_passes")
    assert "wrong_for_columns" in verdict.culprit


def test_N15_a_wrong_pass_is_named() -> None:
    wrong = config(post_grad_custom_post_pass=add_becomes_sub)
    verdict = bisect(layers, torch.randn(4, 4), compiler_config=wrong)
    assert (verdict.system, verdict.part) == ("air", "fx_passes")
    assert "add_becomes_sub" in verdict.culprit
    assert "call 0" in verdict.difference
    assert "FX pass" in str(verdict)


@pytest.fixture
def wrong_tanh() -> Iterator[None]:
    right = find_converter("aten.tanh.default")
    assert right is not None
    unregister("aten.tanh.default")

    @air_geir.converts(aten.tanh.default)
    def tanh(ctx: air_geir.Context, self: air_geir.Value) -> air_geir.Value:
        """tanh(Tensor self) -> Tensor"""
        return ctx.emit("Sigmoid", self)

    yield
    unregister("aten.tanh.default")
    air_geir.converts("aten.tanh.default", samples=right.samples)(right.function)


@pytest.mark.usefixtures("wrong_tanh")
def test_N15_a_wrong_converter_is_named_with_the_users_line() -> None:
    verdict = bisect(layers, torch.randn(4, 4), compiler_config=config("max-autotune"))
    assert (verdict.system, verdict.part) == ("air", "converters")
    assert "aten.tanh.default" in verdict.culprit
    assert "test_bisect" in verdict.culprit  # where the converter is written
    assert "return (y * 2).tanh().sum(-1)" in verdict.culprit


def test_N15_a_bad_capture_is_named_among_several(monkeypatch: pytest.MonkeyPatch) -> None:
    record = HostRuntime.record

    def forgetful(self: HostRuntime, body: Any, inputs: Any, request: Any) -> Any:
        """Records rightly, but the replay of a graph that computes `tan` does nothing."""
        seen: list[Any] = []

        class Look(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                seen.append(func)
                return func(*args, **(kwargs or {}))

        with Look():  # type: ignore[no-untyped-call]
            recording = record(self, body, inputs, request)
        bad = any(op.overloadpacket is aten.tan for op in seen)
        return dataclasses.replace(recording, replay=lambda: None) if bad else recording

    def three_graphs(x: Tensor) -> Tensor:
        y = torch.sin(x)
        torch._dynamo.graph_break()
        z = torch.tan(y)
        torch._dynamo.graph_break()
        return torch.cos(z)

    monkeypatch.setattr(HostRuntime, "record", forgetful)
    verdict = bisect(three_graphs, torch.randn(4, 4), compiler_config=config(), calls=2)
    assert (verdict.system, verdict.part, verdict.number) == ("air", "captures", 1)
    assert "z = torch.tan(y)" in verdict.culprit
    assert verdict.difference.startswith("call 1")  # the call that captures is right


class TwoStreams(torch.nn.Module):
    """`waits` leaves out the wait of stream "2" for the product that stream "1" makes."""

    def __init__(self, waits: bool) -> None:
        super().__init__()
        self.waits = waits
        self.event = tng.ops.npu_create_tagged_event(tag="bisect-a")
        self.done = tng.ops.npu_create_tagged_event(tag="bisect-b")

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        total = x + y
        tng.ops.npu_tagged_event_record(self.event)
        with tng.scope.npu_stream_switch("1"):
            tng.ops.npu_tagged_event_wait(self.event)
            product = total @ y
            tng.ops.npu_tagged_event_record(self.done)
        with tng.scope.npu_stream_switch("2"):
            if self.waits:
                tng.ops.npu_tagged_event_wait(self.done)
            return product + y


@pytest.mark.filterwarnings("ignore::air_streams.StreamRaceWarning")
def test_N15_a_missing_wait_is_named_with_the_stream_and_the_line() -> None:
    inputs = torch.randn(8, 8), torch.randn(8, 8)
    assert bisect(TwoStreams(waits=True), *inputs, compiler_config=config()).right
    verdict = bisect(TwoStreams(waits=False), *inputs, compiler_config=config())
    assert (verdict.system, verdict.part) == ("air", "streams")
    assert verdict.shuffled
    assert verdict.culprit.startswith("stream '1' with 1 operators")  # the first that may not run by itself
    assert "product = total @ y" in verdict.culprit
    assert any("product + y" in finding and "stream '2'" in finding for finding in verdict.findings)


def test_N15_a_result_that_changes_by_itself_is_said_to_change() -> None:
    calls = iter(range(1000))

    def fickle(x: Tensor) -> Tensor:
        return x + 1 if next(calls) % 7 else x

    def search_often() -> None:
        for _ in range(20):
            bisect(torch._dynamo.disable(fickle), torch.randn(4), compiler_config=config(), calls=1)

    with pytest.raises(ResultChanges, match="raise --calls"):
        search_often()


def test_what_is_no_tensor_is_compared_by_its_value() -> None:
    def cast(x: Tensor, kind: torch.dtype, name: str) -> tuple[Tensor, torch.dtype, str, torch.Size]:
        return x.to(kind), kind, name + "!", x.shape

    verdict = bisect(cast, torch.ones(2), torch.float64, "a", compiler_config=config())
    assert verdict.right, str(verdict)


def test_a_word_that_differs_is_a_difference() -> None:
    def asks(x: Tensor) -> tuple[Tensor, str]:
        return x + 1, "compiled" if torch.compiler.is_compiling() else "eager"

    verdict = bisect(asks, torch.ones(2), compiler_config=config())
    assert verdict.system == "eager", "Dynamo"
    assert "eager gives 'eager', compiled gives 'compiled'" in verdict.difference


class Box:
    """Says nothing about when two are the same."""


def test_an_object_that_nothing_can_be_compared_with_is_named() -> None:
    def boxed(x: Tensor) -> tuple[Tensor, Box]:
        return x + 1, Box()

    with pytest.raises(CannotCompare, match=r"a Box of eager cannot be compared .* no `==` of its own"):
        bisect(boxed, torch.ones(2), compiler_config=config())


def test_without_a_call_nothing_is_called_right() -> None:
    with pytest.raises(ValueError, match="calls is 0: at least one call is needed"):
        bisect(layers, torch.randn(4, 4), compiler_config=config(), calls=0)


PROGRAM = """
import torch


def build():
    def model(x):
        return torch.relu(x + 1).sum(-1)

    return model, (torch.randn(4, 4),)
"""


def test_N15_the_command_says_it_in_one_line_and_by_its_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "model.py"
    script.write_text(PROGRAM)
    target = f"{script}:build"
    assert main(["bisect", target, "--mode", "reduce-overhead"]) == 0
    assert capsys.readouterr().out.startswith("right")
    monkeypatch.setattr(
        "air_backend._passes._bound", lambda *given: lambda gm: add_becomes_sub(gm, None, None)
    )
    assert main(["bisect", target, "--mode", "reduce-overhead", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["system"], found["part"]) == ("air", "fx_passes")


def test_the_command_refuses_to_compare_without_a_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.py").write_text(PROGRAM)
    with pytest.raises(SystemExit) as ended:
        main(["bisect", f"{tmp_path}/model.py:build", "--calls", "0"])
    assert ended.value.code == 2
    assert "--calls is 0: at least one call is needed" in capsys.readouterr().err


@pytest.mark.parametrize("given", [{"rtol": 1e-3}, {"atol": 1e-3}])
def test_one_tolerance_is_enough(given: dict[str, Any]) -> None:
    def several(x: Tensor) -> tuple[Tensor, int, float]:
        return x.half() * 3, 7, 0.5

    assert bisect(several, torch.rand(4), calls=1, **given).right


@pytest.mark.parametrize("wrong", [{"rtol": -1.0}, {"atol": float("nan")}])
def test_what_is_no_tolerance_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a tolerance is a number from 0 up"):
        bisect(torch.sin, torch.rand(4), **wrong)


@pytest.mark.parametrize("wrong", ["-1", "nan", "small"])
def test_the_command_refuses_what_is_no_tolerance(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["bisect", "model.py:build", f"--rtol={wrong}"])
    assert f"argument --rtol: {wrong!r}: a tolerance is a number from 0 up" in capsys.readouterr().err
