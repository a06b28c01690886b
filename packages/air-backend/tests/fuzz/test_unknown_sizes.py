"""Operators of tensors with a size that torch knows nothing of (`mark_unbacked`) give what eager gives."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from against_eager import DRAWN_OR_UNWRITTEN, judged

SHARDS = 4
CALLS = 2  # a capture and a replay


def _marked(value: Any) -> Any:
    """A fresh tensor whose first size is unknown."""
    if not isinstance(value, Tensor) or value.layout is not torch.strided:
        return value
    fresh = value.detach().clone(memory_format=torch.preserve_format)
    if _has_rows(fresh):
        torch._dynamo.decorators.mark_unbacked(fresh, 0)
    return fresh


def _has_rows(value: object) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0 and value.shape[0] > 1


def _samples(shard: int) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    from torch.testing._internal.common_methods_invocations import op_db  # seconds, and the test is slow

    for op in op_db[shard::SHARDS]:
        if torch.float32 not in op.dtypes or any(word in op.name for word in DRAWN_OR_UNWRITTEN):
            continue
        drawn = [one for one in op.sample_inputs("cpu", torch.float32) if _is_marked(one)][:2]
        for at, sample in enumerate(drawn):
            yield f"{op.name} {op.variant_test_name} {at}", _program(op.op, sample)


def _is_marked(sample: Any) -> bool:
    return any(map(_has_rows, tree_leaves((sample.input, sample.args, sample.kwargs))))


def _program(op: Any, sample: Any) -> Callable[[Any], Any]:
    def program(way: Callable[..., Any]) -> Any:
        run, seen = way(lambda given, args, kwargs: op(given, *args, **kwargs)), []
        for _ in range(CALLS):
            given = tree_map(_marked, (sample.input, sample.args, sample.kwargs))
            seen.append((run(*given), given))
        return seen

    return program


def _way(backend: str, options: Any = None) -> Callable[..., Any]:
    return lambda function: torch.compile(function, backend=backend, options=options, fullgraph=True)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_N25_operators_of_sizes_that_torch_does_not_know_give_what_eager_gives(mode: str, shard: int) -> None:
    wrong, seen = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, program in _samples(shard):
            try:
                expected = program(lambda function: function)
            except Exception:  # eager does not take it
                continue
            told = judged(program, expected, _way("air", {"mode": mode}))
            seen += not told
            if told and not judged(program, expected, _way("aot_eager")):
                wrong.append(f"{name}: {told}")
    assert seen > 150
    assert not wrong, "\n".join(wrong)
