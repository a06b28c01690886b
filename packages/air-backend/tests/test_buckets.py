"""N11 through the backend: models whose batches are padded, and what becomes of declared buckets elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed

import air_graph.testing  # noqa: F401  # its operators
from air_aclgraph.errors import BucketsRefused
from air_backend import _records
from air_backend.errors import BucketsIgnored
from air_backend.inference import set_dim_buckets, set_dim_gears
from bucketed import compiled, only_run, rows
from model_families import FAMILIES

BATCHES = (3, 4, 5, 7, 2, 8, 6, 3)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("family", ["bert", "llama", "vit"])
def test_N11_a_model_of_transformers_is_captured_for_its_buckets_alone(family: str, device: str) -> None:
    ground = torch.device(device)
    torch.manual_seed(0)
    model = FAMILIES[family].build(1).eval()
    twin = FAMILIES[family].build(1).eval()
    twin.set_attn_implementation("eager")  # while it is traced, torch_npu's own holds the batch to a number
    twin.load_state_dict(model.state_dict())
    run = compiled(twin.to(ground), debug__aclgraph__enable_output_clone=True)
    with torch.no_grad():
        for batch in BATCHES:
            inputs = FAMILIES[family].inputs(batch, 6)
            placed = {name: v.to(ground) if isinstance(v, Tensor) else v for name, v in inputs.items()}
            for value in placed.values():
                if isinstance(value, Tensor):
                    set_dim_buckets(value, {0: [4, 8]})
            own, eager = run(**placed)[0], model(**inputs)[0]
            torch.testing.assert_close(own.cpu(), eager, rtol=1e-3, atol=1e-4)
            assert own.stride() == eager.stride()
    stats = only_run().stats()
    assert stats["captures"] == 2
    assert stats["padded"] == len(BATCHES)
    assert not stats["not_padded"]


def test_N11_ids_and_mask_of_a_batch_are_padded_together() -> None:
    model = FAMILIES["bert"].build(1).eval()
    run = compiled(model)
    with torch.no_grad():
        for batch in BATCHES:
            ids = torch.randint(0, 50, (batch, 6))
            mask = torch.ones(batch, 6, dtype=torch.long)
            mask[:, 4:] = torch.randint(0, 2, (batch, 2))
            for value in (ids, mask):
                set_dim_buckets(value, {0: [4, 8]})
            own, eager = (
                run(input_ids=ids, attention_mask=mask)[0],
                model(input_ids=ids, attention_mask=mask)[0],
            )
            torch.testing.assert_close(own, eager, rtol=1e-3, atol=1e-4)
    assert only_run().stats()["captures"] == 2


def test_N11_passes_act_on_a_padded_graph_and_leave_the_proof_alone() -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        y = x @ w
        y = torch.cat([y[:, :2], y[:, 2:] * 2], 1)
        return y.add(1).relu()

    run = compiled(function)
    with torch.no_grad():
        for count in (3, 5, 8, 2):
            x, w = rows(count, 4), torch.randn(4, 6)
            torch.testing.assert_close(run(x, w), function(x, w))
    ((record, executed),) = _records.alive()
    assert record.passes is not None
    assert any(step.modified for step in record.passes.steps)
    padded: Any = executed
    assert padded.stats()["padded"] == 4


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("max-autotune", {}),
        ("reduce-overhead", {"debug__run_eagerly": True}),
        ("reduce-overhead", {"debug__data_dump__type": "npy"}),
        (
            "reduce-overhead",
            {"dump_config__enable_dump": True, "dump_config__data_dump_stage": "original"},
        ),
    ],
)
def test_N11_where_nothing_is_captured_a_notice_says_that_buckets_have_no_effect(
    mode: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = compiled(lambda x: x * 2, mode, **options)
    with torch.no_grad():
        x = rows(3, 4)
        torch.testing.assert_close(run(x), x * 2)
    ((record, _),) = _records.alive()
    (notice,) = (n for n in record.settings.notices if n.option == "context.buckets")
    rule = "buckets-pad-captures" if mode == "max-autotune" else "buckets-need-captures"
    assert (notice.rule, notice.effect) == (rule, "ignored")


def test_N11_a_graph_that_is_trained_and_not_captured_is_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = compiled(lambda x, w: (x * w).relu(), debug__data_dump__type="npy")
    w = torch.ones(4, requires_grad=True)
    run(rows(3, 4), w).sum().backward()
    assert w.grad is not None


@pytest.mark.parametrize(
    ("mode", "options"), [("reduce-overhead", {}), ("max-autotune", {"debug__run_eagerly": True})]
)
def test_G16_where_no_engine_compiles_a_notice_says_that_gears_have_no_effect(
    mode: str, options: dict[str, Any]
) -> None:
    x = torch.randn(3, 4)
    set_dim_gears(x, {0: [2, 4]})
    run = compiled(lambda x: x * 2, mode, **options)
    with torch.no_grad():
        torch.testing.assert_close(run(x), x * 2)
    ((record, _),) = _records.alive()
    (notice,) = (n for n in record.settings.notices if n.option == "context.gears")
    assert (notice.rule, notice.effect) == ("gears-are-for-a-graph-engine", "ignored")


def refusal(call: Callable[[], object]) -> Exception:
    with pytest.raises(BackendCompilerFailed) as caught:
        call()
    cause: Any = caught.value
    while isinstance(cause, BackendCompilerFailed):
        cause = cause.inner_exception
    assert isinstance(cause, Exception)
    return cause


def test_N11_a_graph_that_is_trained_is_refused() -> None:
    run = compiled(lambda x, w: (x * w).relu())
    w = torch.ones(4, requires_grad=True)
    cause = refusal(lambda: run(rows(3, 4), w))
    assert isinstance(cause, BucketsRefused)
    assert "trained" in str(cause)
    assert "no_grad" in cause.advice


def test_N11_the_line_that_forbids_padding_is_the_users() -> None:
    def attends(x: Tensor) -> Tensor:
        return x.t() @ x  # over the rows

    cause = refusal(lambda: compiled(attends)(rows(3, 4)))
    assert isinstance(cause, BucketsRefused)
    assert cause.where is not None
    assert cause.where.file == __file__
    assert cause.where.code.startswith("return x.t() @ x")


def test_G16_references_and_gears_are_refused_together() -> None:
    x = torch.randn(4, 4)
    set_dim_gears(x, {0: [4, 8]})
    run = compiled(lambda x: x * 2, "max-autotune", experimental_config__enable_ref_data=True)
    with torch.no_grad(), pytest.raises(Exception, match="a graph with gears cannot hold references"):
        run(x)


def test_N11_an_operator_of_the_users_may_write_what_is_not_padded() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        torch.ops.air_testing.add_(y, y)
        return x + 1

    run = compiled(function)
    for count in (3, 5):
        x, y = rows(count, 4), torch.ones(3)
        with torch.no_grad():
            torch.testing.assert_close(run(x, y), x + 1)
        assert y.tolist() == [2.0] * 3
    assert only_run().stats()["padded"] == 2


@torch.library.custom_op("test_buckets::scaled", mutates_args=())
def scaled(x: Tensor) -> Tensor:
    """Asks the device for a number, which no capture can."""
    return x * int(x.new_full((), 2).item())


@scaled.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def test_N11_N23_a_graph_with_buckets_that_has_to_run_in_pieces_runs_and_a_warning_says_so(
    device: str,
) -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return (x + y.nonzero().sum()).relu()

    run, y = torch.no_grad()(compiled(function)), torch.tensor([0.0, 1.0, 2.0], device=device)
    x = rows(3, 4, device=device)
    with pytest.warns(BucketsIgnored, match=r"(?s)buckets have no effect.*nonzero") as told:
        torch.testing.assert_close(run(x, y), function(x, y))
    x = rows(5, 4, device=device)
    torch.testing.assert_close(run(x, y), function(x, y))
    assert [warning.filename for warning in told if warning.category is BucketsIgnored] == [__file__]


@pytest.mark.npu("a CUDA graph is refused by other calls")
@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_N11_N23_what_a_device_refuses_in_a_capture_cuts_a_padded_graph() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        half: Tensor = scaled(y)
        return (x * 2) + half

    run, y = compiled(function), torch.ones(4, device="npu")
    with torch.no_grad():
        for count in (3, 5, 4):
            x = rows(count, 4, device="npu")
            torch.testing.assert_close(run(x, y), x * 2 + 2)
    assert only_run().stats()["padded"] == 3
    assert "split" in only_run().explain()
