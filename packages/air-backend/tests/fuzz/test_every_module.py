"""Every module of torch's own table gives what eager gives: results, their layouts, gradients and buffers."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from against_eager import gradients, judged

SHARDS = 4
CALLS = 2  # a capture and a replay


class Sample(NamedTuple):
    """How a module is made, and what it is called with."""

    name: str
    kind: type[nn.Module]
    made_of: Any
    given: Any
    trains: bool

    def module(self) -> nn.Module:
        torch.manual_seed(1)
        made_of = copy.deepcopy(self.made_of)
        return self.kind(*made_of.args, **made_of.kwargs).train(self.trains)

    def arguments(self) -> tuple[Any, Any]:
        return tree_map(self._fresh, (self.given.args, self.given.kwargs))  # type: ignore[no-any-return]

    def _fresh(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        fresh = value.detach().clone(memory_format=torch.preserve_format)
        return fresh.requires_grad_(value.requires_grad and self.trains)

    def program(self, way: Callable[..., Any]) -> list[Any]:
        """The same with a module that `way` compiles."""
        return self.run(way(self.module()))

    def run(self, module: Any) -> list[Any]:
        """All that a caller sees of some calls."""
        seen = []
        torch.manual_seed(0)
        for _ in range(CALLS):
            args, kwargs = self.arguments()
            with torch.set_grad_enabled(self.trains):
                results = module(*args, **kwargs)
            found = gradients(results, (list(module.parameters()), args, kwargs))
            seen.append((results, found, [x.clone() for x in module.buffers()]))
        return seen


def samples(trains: bool, shard: int) -> Iterator[Sample]:
    from torch.testing._internal.common_modules import module_db  # seconds, and the test is slow

    for module in module_db[shard::SHARDS]:
        drawn = module.module_inputs_func(
            module, device="cpu", dtype=torch.float32, requires_grad=True, training=trains
        )
        for one in drawn:
            if one.forward_input is not None:
                yield Sample(module.name, module.module_cls, one.constructor_input, one.forward_input, trains)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("trains", [False, True], ids=["evaluates", "trains"])
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_N25_every_module_gives_what_eager_gives(mode: str, trains: bool, shard: int) -> None:
    ours = partial(torch.compile, backend="air", options={"mode": mode})
    theirs = partial(torch.compile, backend="aot_eager")
    wrong, seen = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples(trains, shard):
            try:
                expected = sample.run(sample.module())
            except Exception:  # eager does not take it
                continue
            seen += 1
            told = judged(sample.program, expected, ours)
            if told and not judged(sample.program, expected, theirs):
                wrong.append(f"{sample.name}{sample.made_of}: {told}")
    assert seen > 100
    assert not wrong, "\n".join(wrong)
