"""The multi-stream document's model, compiled for CPU tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch._dynamo.exc import BackendCompilerFailed
from torch.fx.experimental.proxy_tensor import make_fx

import air_backend as tng
from air_aclgraph import HostRuntime, use_runtime
from air_backend import CompilerConfig, _records, compile_fx, ops, scope
from air_streams import STREAM_OPS, StreamPlan, StreamRaceWarning


class Model(torch.nn.Module):
    """The document's model, for any device; `waits` leaves out the waits."""

    def __init__(self, waits: bool = True) -> None:
        super().__init__()
        self.waits = waits
        self.tagged_event1 = tng.ops.npu_create_tagged_event(tag="66")
        self.tagged_event2 = tng.ops.npu_create_tagged_event(tag="77")

    def forward(self, in1: Tensor, in2: Tensor, in3: Tensor, in4: Tensor) -> tuple[Tensor, ...]:
        add_result = torch.add(in1, in2)
        tng.ops.npu_tagged_event_record(self.tagged_event1)
        with tng.scope.npu_stream_switch("1"):
            if self.waits:
                tng.ops.npu_tagged_event_wait(self.tagged_event1)
            mm_result = torch.mm(add_result, in4)
            tng.ops.npu_tagged_event_record(self.tagged_event2)
            b = in3 + in4
            tng.ops.npu_record_tagged_stream(b, "1")
        mm1 = torch.mm(in3, in4)
        del b
        c = torch.ones(100, 100, dtype=torch.float16, device=in1.device)
        c.add_(2)
        with tng.scope.npu_stream_switch("2"):
            if self.waits:
                tng.ops.npu_tagged_event_wait(self.tagged_event2)
            add2 = torch.add(mm_result, in4)
        return add_result, mm_result, mm1, add2, c


def inputs() -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(100, 100) for _ in range(4)]


def compiled(
    model: torch.nn.Module, mode: str = "reduce-overhead", sync: str = "check"
) -> Callable[..., Any]:
    config = CompilerConfig()
    config.set("mode", mode)
    config.set("air.sync", sync)
    backend = tng.get_npu_backend(compiler_config=config)
    return torch.compile(model, backend=backend, dynamic=False, fullgraph=True)


def expected(values: list[Tensor]) -> tuple[Tensor, ...]:
    in1, in2, in3, in4 = values
    product = torch.mm(in1 + in2, in4)
    return (
        in1 + in2,
        product,
        torch.mm(in3, in4),
        product + in4,
        torch.full((100, 100), 3, dtype=torch.float16),
    )


def test_S19_S20_S21_S22_the_model_of_the_document_computes_what_it_means() -> None:
    model = compiled(Model())
    values = inputs()
    with warnings.catch_warnings():
        warnings.simplefilter("error", StreamRaceWarning)
        for _ in range(3):
            torch.testing.assert_close(tuple(model(*values)), expected(values))
    plan = _records.alive()[-1][0].plan
    assert plan.is_multi_stream


def test_the_same_model_class_can_be_instantiated_twice() -> None:
    values = inputs()
    for _ in range(2):
        torch.testing.assert_close(tuple(compiled(Model())(*values)), expected(values))


def test_S17_reinplace_is_off_in_a_multi_stream_graph_and_a_notice_says_so() -> None:
    compiled(Model())(*inputs())
    settings = _records.alive()[-1][0].settings
    assert settings.debug.aclgraph.disable_reinplace_inplaceable_ops_pass
    assert any(notice.rule == "reinplace-off-with-streams" for notice in settings.notices)


def test_S22_in_max_autotune_a_tag_is_a_label_a_notice_says_so_and_order_is_that_of_the_data() -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        with tng.scope.npu_stream_switch("side"):
            y = torch.mm(x, w)
        return y + 1

    config = CompilerConfig()
    config.air.sync = "auto"
    model = torch.compile(function, backend=tng.get_npu_backend(compiler_config=config), fullgraph=True)
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", StreamRaceWarning)
        torch.testing.assert_close(model(x, w), function(x, w))
    ((record, executed),) = _records.alive()
    assert "_user_stream_label='side'" in "\n".join(executed.explain()["nodes"])
    (notice,) = (n for n in record.settings.notices if n.option == "context.multi_stream")
    assert (notice.rule, notice.effect, notice.used) == ("streams-need-reduce-overhead", "overridden", False)
    assert "air.sync" in {n.option for n in record.settings.notices if n.effect == "ignored"}


def test_N05_a_missing_wait_is_a_warning_with_both_lines() -> None:
    with pytest.warns(StreamRaceWarning) as caught:
        compiled(Model(waits=False))(*inputs())
    text = str(caught[0].message)
    assert "test_streams.py" in text
    assert "wait" in text


def test_a_missing_wait_is_an_error_when_asked_for() -> None:
    with pytest.raises(BackendCompilerFailed, match="test_streams"):
        compiled(Model(waits=False), sync="error")(*inputs())


def without_waits(gm: fx.GraphModule, example_inputs: Any, config: CompilerConfig) -> None:
    for node in gm.graph.find_nodes(op="call_function", target=torch.ops.air_streams.event_wait.default):
        gm.graph.erase_node(node)


@pytest.mark.parametrize("sync", ["check", "error", "auto"])
def test_a_race_that_a_users_pass_makes_is_held_to_the_same_mode(sync: str) -> None:
    config = CompilerConfig()
    config.mode = "reduce-overhead"
    config.set("air.sync", sync)
    config.post_grad_custom_post_pass = without_waits
    model = torch.compile(Model(), backend=tng.get_npu_backend(compiler_config=config), dynamic=False)
    if sync == "error":
        with pytest.raises(BackendCompilerFailed, match="a pass made the multi-stream program incorrect"):
            model(*inputs())
        return
    values = inputs()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StreamRaceWarning)
        torch.testing.assert_close(tuple(model(*values)), expected(values))
    told = [each for each in caught if issubclass(each.category, StreamRaceWarning)]
    assert bool(told) == (sync == "check")
    assert bool(_records.alive()[-1][0].plan.races()) == (sync == "check")


def test_N06_missing_waits_are_inserted_when_asked_for() -> None:
    values = inputs()
    model = compiled(Model(waits=False), sync="auto")
    for _ in range(3):
        torch.testing.assert_close(tuple(model(*values)), expected(values))
    assert not _records.alive()[-1][0].plan.races()


def test_a_training_step_with_streams_keeps_them_out_of_the_backward_graph() -> None:
    event = tng.ops.npu_create_tagged_event("backward")

    def forward(x: Tensor, w: Tensor) -> Tensor:
        y = x + 1
        tng.ops.npu_tagged_event_record(event)
        with tng.scope.npu_stream_switch("1"):
            tng.ops.npu_tagged_event_wait(event)
            z = torch.mm(y, w)
            tng.ops.npu_tagged_event_record(event)
        tng.ops.npu_tagged_event_wait(event)
        return z.tanh() * 2

    config = CompilerConfig()
    config.mode = "reduce-overhead"
    compiled = torch.compile(
        forward, backend=tng.get_npu_backend(compiler_config=config), dynamic=False, fullgraph=True
    )
    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    for _ in range(3):
        compiled(x, w).sum().backward()
    copy = w.detach().clone().requires_grad_()
    for _ in range(3):
        forward(x, copy).sum().backward()
    torch.testing.assert_close(w.grad, copy.grad)
    plans = {record.role: record.plan for record, _ in _records.alive()}
    assert plans["forward"].is_multi_stream
    assert not plans["backward"].is_multi_stream
    assert not any(node.target in STREAM_OPS for node in plans["backward"].nodes)


def test_the_plan_of_a_graph_is_read_again_only_where_passes_changed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: list[str] = []
    original = StreamPlan.of.__func__  # type: ignore[attr-defined]  # the function below the classmethod

    def counted(cls: type[StreamPlan], gm: Any, *, sync: str = "check") -> StreamPlan:
        reads.append(sync)
        plan: StreamPlan = original(cls, gm, sync=sync)
        return plan

    monkeypatch.setattr(StreamPlan, "of", classmethod(counted))
    compile_fx(make_fx(lambda x: x @ x, tracing_mode="fake")(torch.randn(2, 2)))
    assert reads == ["off"]
    reads.clear()
    chain = make_fx(lambda x: torch.relu(x + 1), tracing_mode="fake")(torch.randn(2, 2))
    compile_fx(chain, options={"mode": "reduce-overhead"})
    assert reads == ["off", "off"]


def test_N05_halves_of_a_tensor_written_on_two_streams_are_those_of_eager_in_every_order() -> None:
    def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out = x + 0
        ops.npu_tagged_event_record(first)
        with scope.npu_stream_switch("side"):
            ops.npu_tagged_event_wait(first)
            out[:2].mul_(2)
            ops.npu_tagged_event_record(second)
        out[2:].mul_(3)
        lower = out[2:] + 1
        ops.npu_tagged_event_wait(second)
        return out, lower

    first, second = (ops.npu_create_tagged_event(tag) for tag in ("first", "second"))
    compiled = torch.compile(halves, backend="air", mode="reduce-overhead", dynamic=False)
    with use_runtime(HostRuntime(order="shuffled", seed=3)), warnings.catch_warnings():
        warnings.simplefilter("error", StreamRaceWarning)
        for _ in range(8):
            x = torch.randn(4, 4)
            for ours, theirs in zip(compiled(x), halves(x), strict=True):
                torch.testing.assert_close(ours, theirs)
