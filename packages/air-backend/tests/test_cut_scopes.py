"""Scopes in a graph that reduce-overhead cuts: what still holds in the pieces, and what is said to be ignored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from air_streams import ScopeIgnored, scope

npu: Any = getattr(torch, "npu", None)


@pytest.fixture(autouse=True)
def one_graph() -> Iterator[None]:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        yield


def test_S21_stream_scopes_of_a_graph_that_is_cut_are_ignored_with_a_warning() -> None:
    def cut(x: Tensor) -> tuple[Tensor, Tensor]:
        with scope.npu_stream_switch("side"):
            y = x + 1
            found = torch.nonzero(x)
            z = y * 2
        return z, found

    compiled = torch.compile(cut, backend="air", mode="reduce-overhead", fullgraph=True)
    x = torch.randn(4)
    with pytest.warns(ScopeIgnored, match="cut, and runs on one stream") as caught:
        torch.testing.assert_close(compiled(x), cut(x))
    told = [warning for warning in caught if issubclass(warning.category, ScopeIgnored)]
    assert [(warning.filename, len(told)) for warning in told] == [(__file__, 1)]


def test_S21_a_scope_that_speaks_to_the_graph_engine_is_told_by_its_line_in_a_graph_that_is_cut() -> None:
    def cut(x: Tensor) -> tuple[Tensor, Tensor]:
        with scope.super_kernel("tail"):
            return (x + 1) * 2, torch.nonzero(x)

    compiled = torch.compile(cut, backend="air", mode="reduce-overhead", fullgraph=True)
    with pytest.warns(ScopeIgnored, match=r"test_cut_scopes\.py:\d+"):
        compiled(torch.randn(4))


@pytest.mark.npu("only CANN limits the cores of a stream")
def test_A44_core_limits_hold_in_the_pieces_of_a_graph_that_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(x: Tensor) -> tuple[Tensor, Tensor]:
        with scope.limit_core_num(4, 8):
            y = x + 1
            found = torch.nonzero(x)
            z = y * 2
        return z, found

    x, limits = torch.randn(4, device="npu"), []
    set_limit = npu.set_stream_limit

    def seen(stream: Any, aicore: int, vectorcore: int) -> None:
        limits.append((aicore, vectorcore))
        set_limit(stream, aicore, vectorcore)

    monkeypatch.setattr(npu, "set_stream_limit", seen)
    torch.compile(cut, backend="air", mode="reduce-overhead", fullgraph=True)(x)
    assert (4, 8) in limits
