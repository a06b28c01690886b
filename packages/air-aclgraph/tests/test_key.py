"""The shape key: one for each behaviour of the captured kernels, and none too many."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import air_aclgraph
from aclgraph_backend import executable
from air_aclgraph._key import exact

NAN, OTHER_NAN = float("nan"), math.nan * 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.0, -0.0), (1, True), (1, 1.0), (0, False), (1.5, 1.25), (NAN, 1.0), (math.inf, -math.inf),
        (complex(0.0, 0.0), complex(0.0, -0.0)), (complex(0.0, 0.0), complex(-0.0, 0.0)),
        ([1, 0.0], [1, -0.0]), ({"scale": [0.0]}, {"scale": [-0.0]}), ((1, (2, 0.0)), (1, (2, -0.0))),
    ],
)  # fmt: skip
def test_N25_values_that_a_kernel_tells_apart_are_different(one: Any, other: Any) -> None:
    assert exact(one) != exact(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (NAN, OTHER_NAN), ([NAN, 1], [OTHER_NAN, 1]), ({"a": (NAN,)}, {"a": [OTHER_NAN]}),
        (0.1 + 0.2, 0.30000000000000004),
        (complex(NAN, 1), complex(OTHER_NAN, 1)), ("a", "a"), (None, None), (3, 3),
    ],
)  # fmt: skip
def test_N25_values_that_a_kernel_cannot_tell_apart_are_equal(one: Any, other: Any) -> None:
    assert exact(one) == exact(other)


def scaled(x: Tensor, factor: Any) -> tuple[Tensor, ...]:
    return 1 / (x * factor), x * factor


def test_N25_a_number_that_is_a_float_is_keyed_by_what_it_is() -> None:
    graph = torch.fx.Graph()
    x, factor = graph.placeholder("x"), graph.placeholder("factor")
    product = graph.call_function(torch.ops.aten.mul.Scalar, (x, factor))
    ones = graph.call_function(torch.ops.aten.ones_like.default, (x,))
    graph.output((graph.call_function(torch.ops.aten.copysign.Tensor, (ones, product)),))
    x.meta["val"], factor.meta["val"] = torch.empty(2), 1.5
    gm = torch.fx.GraphModule({}, graph)
    run = air_aclgraph.compile_graph(gm, [torch.ones(2), 1.5])
    for value in (0.0, -0.0, 0.0, -0.0, 2.0):
        (found,) = run(torch.ones(2), value)
        assert found.tolist() == [math.copysign(1.0, value)] * 2
    for _ in range(3):
        run(torch.ones(2), float("nan"))
    assert run.stats()["captures"] == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_N25_a_host_number_of_a_device_graph_is_keyed_by_what_it_is(
    accelerator: str, dtype: torch.dtype
) -> None:
    x = torch.ones(3, device=accelerator)
    run = executable(scaled, x, torch.tensor(1.0, dtype=dtype), device=accelerator)
    for value in (0.0, -0.0, 0.0, -0.0):
        inverse, product = run(x, torch.tensor(value, dtype=dtype))
        assert inverse.tolist() == [math.copysign(math.inf, value)] * 3
        assert product.tolist() == [0.0] * 3
    assert run.stats()["captures"] == 2
    for _ in range(3):
        assert run(x, torch.tensor(float("nan"), dtype=dtype))[1].isnan().all()
    assert run.stats()["captures"] == 3, "one NaN is like another"
