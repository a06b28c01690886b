"""Operators nothing translates run eagerly between compiled pieces, when that is asked for."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from air_geir import compile_graph
from air_geir._fallback import SplitExecutable
from air_geir.errors import UnsupportedGraphError
from air_geir.proof import trace


def mixed(x: torch.Tensor) -> Any:
    q, r = torch.linalg.qr(x * 2 + 1)
    return torch.relu(q) @ r, r.sum()


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_rest_of_the_graph_is_compiled(dynamic: bool) -> None:
    x = torch.randn(4, 4)
    run = compile_graph(trace(mixed, (x,), dynamic=dynamic), [x], engine="reference", fallback="eager")
    assert isinstance(run, SplitExecutable)
    for got, want in zip(run(x), mixed(x), strict=True):
        torch.testing.assert_close(got, want)
    assert [u.target for u in run.eager] == ["aten.linalg_qr.default"]
    assert len(run.pieces) == 2
    assert "linalg_qr" in run.explain()


def test_without_being_asked_it_is_an_error() -> None:
    x = torch.randn(4, 4)
    with pytest.raises(UnsupportedGraphError, match="linalg_qr"):
        compile_graph(trace(mixed, (x,)), [x], engine="reference")


def test_a_write_to_an_input_survives_the_split() -> None:
    def step(x: torch.Tensor) -> Any:
        q, _ = torch.linalg.qr(x)
        y = q * 2
        x.copy_(y)
        return y.sum()

    x = torch.randn(3, 3)
    twin = x.clone()
    expected = step(twin)
    run = compile_graph(trace(step, (x.clone(),)), [x], engine="reference", fallback="eager")
    torch.testing.assert_close(run(x)[0], expected)
    torch.testing.assert_close(x, twin)
