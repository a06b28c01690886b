"""What torch cannot trace for a file runs all the same, and a warning says so; branches on data are read from files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters

from air_backend.inference import cache_compile
from air_backend.inference.errors import CacheWarning


def of_a_new_view(x: Tensor) -> Tensor:
    """Each look at `mT` makes a tensor, and the conditions of torch's file compare the two by their numbers."""
    return torch.arange(x.mT.shape[-1]).to(x.mT.device)


def breaking(x: Tensor) -> Tensor:
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


def uneven(x: Tensor, y: Tensor) -> Tensor:
    return x @ y


@pytest.mark.parametrize(("function", "fullgraph", "said"), [
    (of_a_new_view, True, r"of_a_new_view is not kept .*torch cannot trace it for a file \(RuntimeError: Boolean"),
    (breaking, False, r"breaking is not kept .*torch cannot trace it for a file \(Unsupported: "),
])  # fmt: skip
def test_what_torch_cannot_trace_for_a_file_is_compiled_in_this_process(
    function: Any, fullgraph: bool, said: str, tmp_path: Path
) -> None:
    x = torch.rand(5, 4)
    cached = cache_compile(function, cache_dir=tmp_path, fullgraph=fullgraph)
    with pytest.warns(CacheWarning, match=said) as caught:
        torch.testing.assert_close(cached(x), function(x))
    assert [Path(warning.filename) for warning in caught] == [Path(__file__)], "it names the line of the call"
    with warnings.catch_warnings():
        warnings.simplefilter("error", CacheWarning)
        torch.testing.assert_close(cached(x + 1), function(x + 1))
    assert not list(tmp_path.rglob("compiled_module"))


def test_a_graph_break_is_an_error_where_there_may_be_none(tmp_path: Path) -> None:
    with pytest.raises(torch._dynamo.exc.Unsupported):
        cache_compile(breaking, cache_dir=tmp_path)(torch.rand(3))


def test_a_wrong_call_is_its_own_error_and_the_next_call_is_kept(tmp_path: Path) -> None:
    cached, x = cache_compile(uneven, cache_dir=tmp_path), torch.rand(3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CacheWarning)
        with pytest.raises(
            torch._dynamo.exc.TorchRuntimeError, match=r"size mismatch|must have same reduction"
        ):
            cached(x, x)
        torch.testing.assert_close(cached(x, x.T), x @ x.T)
    assert list(tmp_path.rglob("compiled_module"))


def branching(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, (x,))


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_A51_a_function_with_branches_on_data_is_read(mode: str, tmp_path: Path) -> None:
    x = torch.rand(3)
    for count in (1, 0):
        torch._dynamo.reset()
        counters.clear()
        function = cache_compile(branching, cache_dir=tmp_path, mode=mode)
        torch.testing.assert_close(function(x), x * 2)
        torch.testing.assert_close(function(-x), -x - 1)
        assert counters["stats"].get("unique_graphs", 0) == count
