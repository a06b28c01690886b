"""What the calls of a training step were given: kept for gradients of gradients, as far as there is room."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn

from air_backend.eager_calls import SecondDerivativeRefused, _twice
from air_backend.eager_calls._recent import LIMIT, Recent

MODES: Final = ("reduce-overhead", "max-autotune")


class Shift(nn.Module):
    """Saves nothing of its argument."""

    def __init__(self) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.by


def compiled(mode: str, function: Any) -> Any:
    return torch.compile(function, backend="air", options={"mode": mode})


def test_a_forward_keeps_small_arguments_until_its_backward() -> None:
    run = compiled("reduce-overhead", Shift())
    x = torch.ones(4)
    result, gone = run(x), weakref.ref(x)
    del x
    assert gone() is not None
    result.sum().backward(retain_graph=True)
    assert gone() is not None
    result.sum().backward()
    assert gone() is None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("retained", [False, True])
def test_an_argument_that_the_result_is_written_into_is_freed(
    mode: str, retained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_twice, "_recent", Recent(limit=4 * 64 * 4))
    run = compiled(mode, torch.nn.Linear(16, 16).requires_grad_(False))
    scale = torch.ones(16, requires_grad=True)
    seen = []
    for _ in range(20):
        h = torch.randn(4, 16) * scale
        h += run(h)
        if retained:
            torch.autograd.grad(h.sum(), scale, retain_graph=True)
        seen.append(weakref.ref(h))
        del h
    gc.collect()
    assert sum(one() is not None for one in seen) <= 4


def test_large_arguments_that_nothing_saves_are_not_kept_until_the_backward() -> None:
    run = compiled("reduce-overhead", lambda h, w: (h.mean(0) * w).sum())
    w, seen, loss = torch.ones(64, requires_grad=True), [], torch.zeros(())
    for _ in range(12):
        h = torch.randn(40_000, 64)  # 10 MB
        seen.append(weakref.ref(h))
        loss = loss + run(h, w)
        del h
    assert sum(one() is not None for one in seen) <= LIMIT // 10_240_000
    loss.backward()
    assert not any(one() is not None for one in seen)


@pytest.mark.filterwarnings("ignore::air_backend.eager_calls.RunsEagerly")
def test_where_one_was_let_go_it_is_kept_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_twice, "_recent", Recent(limit=0))

    def step(h: Tensor) -> Tensor:
        return h.sum().exp()

    def second(function: Callable[[Tensor], Tensor]) -> Tensor:
        x = torch.linspace(0, 1, 4).requires_grad_()
        (slope,) = torch.autograd.grad(function(x * 2), x, create_graph=True)
        return torch.autograd.grad(slope.sum(), x)[0]

    run = compiled("reduce-overhead", step)
    with pytest.raises(SecondDerivativeRefused, match="from now on this function keeps its arguments"):
        second(run)
    torch.testing.assert_close(second(run), second(step))


def test_nor_does_it_keep_one_where_what_it_saves_is_put_elsewhere() -> None:
    run = compiled("reduce-overhead", Shift())
    x = torch.ones(4)
    with torch.autograd.graph.save_on_cpu():
        result = run(x)
    gone = weakref.ref(x)
    del x
    assert gone() is None
    assert result.requires_grad
