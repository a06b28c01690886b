"""`assert_same_as_eager` passes what is right, and names what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from air_backend._ground import Ground
from air_backend.testing import assert_same_as_eager

LIBRARY = torch.library.Library("air_backend_testing", "FRAGMENT")


class Counting(nn.Module):
    """Reads and writes a buffer, and normalises by what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.seen: Tensor
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor, *, scale: float = 1.0) -> dict[str, Tensor]:
        self.seen.add_(1)
        return {"y": self.norm(self.linear(x)) * scale + self.seen, "n": self.seen * 2}


def test_a_model_that_writes_its_buffers_is_the_same_in_each_mode(air_ground: Ground, air_mode: str) -> None:
    model = Counting().to(air_ground.device)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x = torch.randn(8, 4, device=air_ground.device)
    assert_same_as_eager(model, [x], kwargs={"scale": 0.5}, modes=[air_mode])
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items()), (
        "it is left alone"
    )


def test_gradients_of_parameters_and_inputs_are_compared(air_ground: Ground) -> None:
    x = torch.randn(8, 4, device=air_ground.device, requires_grad=True)
    assert_same_as_eager(
        Counting().to(air_ground.device), [x], modes=air_ground.modes, backward=True, calls=2
    )
    assert x.grad is None


def test_inputs_that_are_written_are_compared_in_every_call(air_ground: Ground) -> None:
    def step(cache: Tensor, x: Tensor) -> Tensor:
        cache.mul_(2).add_(x)
        return cache.sum()

    cache = torch.ones(4, device=air_ground.device)
    assert_same_as_eager(step, [cache, torch.ones(4, device=air_ground.device)], modes=air_ground.modes)
    assert torch.equal(cache.cpu(), torch.ones(4))


def test_inputs_that_share_memory_share_it_in_every_run(air_ground: Ground) -> None:
    def step(whole: Tensor, row: Tensor) -> Tensor:
        row.add_(1)
        return whole.sum()

    whole = torch.zeros(3, 4, device=air_ground.device)
    seen: list[int] = []

    def noting(whole: Tensor, row: Tensor) -> Tensor:
        seen.append(int(step(whole, row)))
        return row * 2

    assert_same_as_eager(step, [whole, whole[1]], modes=air_ground.modes)
    assert_same_as_eager(torch._dynamo.disable(noting), [whole, whole[1]], modes=air_ground.modes, calls=1)
    assert set(seen) == {4}


def broken(graph: Any, inputs: Any, config: Any) -> None:
    """A pass that makes a sum of a difference."""
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.sub.Tensor:
            node.target = torch.ops.aten.add.Tensor


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_a_wrong_result_is_named_with_mode_call_and_place(mode: str) -> None:
    def function(x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        return x + 1, {"difference": x - 3}

    options = {"post_grad_custom_pre_pass": broken}
    with pytest.raises(AssertionError) as failed:
        assert_same_as_eager(function, [torch.ones(3)], modes=[mode], options=options)
    for word in (f"mode '{mode}', call 1 of 3", "result[1]['difference'] differs from eager", "air bisect"):
        assert word in str(failed.value)


def test_a_state_that_is_not_kept_is_found_in_a_later_call() -> None:
    calls = []

    class Forgetful(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if not torch.compiler.is_compiling():
                calls.append(x)
            return x + len(calls) if not torch.compiler.is_compiling() else x + 1

    with pytest.raises(AssertionError, match=r"call [12] of 2: result differs"):
        assert_same_as_eager(Forgetful(), [torch.ones(2)], modes=["reduce-overhead"], calls=2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"modes": "max-autotune"}, "modes is a list"),
        ({"calls": 0}, "at least one call"),
        ({"backward": True}, "no result needs a gradient"),
    ],
)
def test_what_would_compare_nothing_is_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        assert_same_as_eager(torch.sin, [torch.ones(2)], **words)


def test_a_tensor_is_no_list_of_arguments() -> None:
    wrong: Any = torch.ones(1)
    with pytest.raises(ValueError, match=r"got a tensor.*give \[x\]"):
        assert_same_as_eager(torch.sin, wrong)


def test_a_mode_among_the_options_is_refused_as_it_would_take_the_place_of_all_modes() -> None:
    with pytest.raises(ValueError, match="options has a mode, and modes says which"):
        assert_same_as_eager(torch.sin, [torch.ones(2)], options={"mode": "max-autotune"})
