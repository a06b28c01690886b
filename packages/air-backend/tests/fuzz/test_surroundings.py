"""Models that are called in random surroundings give what eager gives.

`--fuzz-programs N` sets how many scripts each mode runs, `--fuzz-seed S` with which one it begins. What torch alone
gets wrong alike in the same step or before is left out, and so are random numbers in max-autotune, where engines draw
their own.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from scripts import Script, difference, draw_script, play
from small_models import Dropping

SHARDS = 2  # so that several workers share the scripts of a mode
ON_NPU = 10  # so many times fewer scripts there
MODES = ("reduce-overhead", "max-autotune")


def compiled(model: nn.Module, backend: str, mode: str | None = None) -> Any:
    torch._dynamo.reset()
    options: Any = None if mode is None else {"mode": mode}
    return torch.compile(model, backend=backend, options=options)


def is_error(found: tuple[int, str]) -> bool:
    """Whether a step is another one because it raised, or did not."""
    return found[1].startswith(("raised ", "did not raise "))


def difference_of(script: Script, mode: str, device: str) -> str | None:
    """How a script differs from eager, where torch alone does not."""
    if mode == "max-autotune" and script.model is Dropping:
        return None
    with torch._dynamo.config.patch(skip_nnmodule_hook_guards=False):  # hooks come and go here
        expected = play(script, lambda model: model, device)
        found = difference(script, expected, play(script, lambda model: compiled(model, "air", mode), device))
        if found is None:
            return None
        alone = difference(script, expected, play(script, lambda model: compiled(model, "aot_eager"), device))
    if alone is not None and alone[0] <= found[0] and is_error(alone) == is_error(found):
        return None
    return f"step {found[0]}: {found[1]}\n{script}"


def check(mode: str, seeds: range, device: str) -> None:
    scripts = {seed: draw_script(seed) for seed in seeds}
    found = {seed: difference_of(script, mode, device) for seed, script in scripts.items()}
    assert {seed: text for seed, text in found.items() if text} == {}


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("mode", MODES)
def test_random_surroundings_change_nothing_that_a_caller_sees(
    mode: str, shard: int, request: pytest.FixtureRequest
) -> None:
    first, programs = (request.config.getoption(name) for name in ("--fuzz-seed", "--fuzz-programs"))
    check(mode, range(first + shard, first + programs, SHARDS), "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_random_surroundings_on_a_device_change_nothing_that_a_caller_sees(
    accelerator: str, mode: str, request: pytest.FixtureRequest
) -> None:
    first, programs = (request.config.getoption(name) for name in ("--fuzz-seed", "--fuzz-programs"))
    check(mode, range(first, first + max(programs // ON_NPU, 1)), accelerator)


def test_the_judge_sees_a_gradient_that_is_lost() -> None:
    def forgets(model: nn.Module) -> nn.Module:
        model.register_forward_hook(
            lambda module, args, result: torch.utils._pytree.tree_map_only(
                torch.Tensor, torch.Tensor.detach, result
            )
        )
        return model

    found = []
    for script in map(draw_script, range(20)):
        found.append(
            difference(script, play(script, lambda model: model, "cpu"), play(script, forgets, "cpu"))
        )
    assert sum(one is not None for one in found) > 10
