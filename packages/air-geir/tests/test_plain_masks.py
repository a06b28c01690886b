"""Dropout that runs eagerly on an NPU gives the mask that torch describes."""

from __future__ import annotations

import pytest
import torch
from torch import fx

from air_geir import _plain_masks
from air_geir._plain_masks import with_plain_masks

aten, air_geir = torch.ops.aten, torch.ops.air_geir


@pytest.fixture
def part() -> fx.GraphModule:
    """native_dropout(x, 0.25, True); also under a state of the generator, which is given."""
    graph = fx.Graph()
    x, state = graph.placeholder("x"), graph.placeholder("state")
    x.meta["val"] = torch.empty(3, 4)
    plain = graph.call_function(aten.native_dropout.default, (x, 0.25, True))
    given = (state, aten.native_dropout.default, x, 0.25, True)
    under = graph.call_function(torch.ops.higher_order.run_with_rng_state, given)
    graph.output((plain, under))
    return fx.GraphModule({}, graph)


def calls(gm: fx.GraphModule) -> list[fx.Node]:
    return [node for node in gm.graph.nodes if node.op == "call_function"]


def test_calls_of_dropout_are_written_otherwise_and_the_graph_stays_as_it_was(
    part: fx.GraphModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_plain_masks, "_is_of_npu", lambda value: value is not None)
    plain, under = calls(with_plain_masks(part))
    assert plain.target is air_geir.native_dropout.default
    assert under.args[1] is air_geir.native_dropout.default
    assert calls(part)[0].target is aten.native_dropout.default


def test_a_part_of_the_cpu_is_left_alone(part: fx.GraphModule) -> None:
    assert with_plain_masks(part) is part


@pytest.mark.parametrize("train", [True, None])
def test_it_drops_that_part_of_the_elements_and_scales_the_others(train: bool | None) -> None:
    torch.manual_seed(0)
    x = torch.full((40, 50), 3.0)
    y, kept = air_geir.native_dropout(x, 0.25, train)
    assert kept.dtype is torch.bool
    assert 0.2 < (~kept).float().mean() < 0.3
    torch.testing.assert_close(y, torch.where(kept, 4.0, 0.0))
    torch.manual_seed(0)
    assert torch.equal(air_geir.native_dropout(x, 0.25, train)[1], kept)
    grad = torch.rand(40, 50)
    torch.testing.assert_close(
        air_geir.native_dropout_backward(grad, kept, 4 / 3), aten.native_dropout_backward(grad, kept, 4 / 3)
    )


@pytest.mark.parametrize(("p", "train"), [(0.0, True), (0.5, False), (1.0, True)])
def test_it_drops_nothing_or_all_as_torch_does(p: float, train: bool) -> None:
    x = torch.randn(3, 4)
    for found, wanted in zip(
        air_geir.native_dropout(x, p, train), aten.native_dropout(x, p, train), strict=True
    ):
        assert torch.equal(found, wanted)
