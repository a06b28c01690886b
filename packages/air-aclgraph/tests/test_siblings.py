"""Modules that share one compiled graph: each has its own captures, and none of its parameters is copied."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from aclgraph_backend import Backend
from air_aclgraph import _key_store
from air_aclgraph._patience import MOST, TOO_RARE
from air_aclgraph._siblings import Siblings
from air_aclgraph._slots import Kind, Slot


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x).relu() + x
        return y


def layers(device: str, count: int, **options: Any) -> tuple[Backend, nn.Sequential]:
    backend = Backend(device, **options)
    model = nn.Sequential(*(Layer() for _ in range(count))).to(device)
    for layer in model:
        layer.compile(backend=backend, dynamic=True)
    return backend, model


def run(model: nn.Sequential, device: str, rows: int = 3) -> None:
    with torch.no_grad():
        x = expected = torch.randn(rows, 4, device=device)
        each: Any
        for each in model:
            expected = each.linear(expected).relu() + expected
        torch.testing.assert_close(model(x), expected)


def test_each_module_is_captured_once_for_each_shape(device: str) -> None:
    backend, model = layers(device, 3)
    for rows in (3, 3, 5, 3, 5, 5, 3):
        run(model, device, rows)
    stats = backend.only.stats()
    assert stats["captures"] == 6
    assert stats["recaptures"] == {}
    assert {kind for key in backend.only.explain()["keys"] for kind in key["kinds"]} <= {
        "static",
        "copied",
        "value",
    }


def test_a_parameter_that_moves_is_captured_again_for_its_module_alone(device: str) -> None:
    backend, model = layers(device, 3)
    run(model, device)
    moved: Any = model[1]
    moved.linear.weight.data = torch.randn(4, 4, device=device)
    for _ in range(2):
        run(model, device)
    assert backend.only.stats()["captures"] == 4
    assert backend.only.stats()["recaptures"] == {"static input moved": 1}


def test_whose_capture_it_was_is_forgotten_with_what_is_known_of_the_key(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_key_store, "POLICIES_LIMIT", 3)
    backend, model = layers(device, 1, debug__aclgraph__static_capture_size_limit=1)
    for rows in range(2, 20):
        for _ in range(17):
            run(model, device, rows)
    assert backend.only.stats()["evictions"] > 10
    assert len(backend.only._siblings._owners) == 3


def test_siblings_that_came_too_seldom_for_a_capture_are_forgotten_with_their_shapes(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_key_store, "POLICIES_LIMIT", 3)
    backend, model = layers(device, 2, debug__aclgraph__static_capture_size_limit=1)
    for rows in range(2, 20):
        for _ in range(17):
            run(model, device, rows)
    assert backend.only.stats()["evictions"] > 10
    siblings = backend.only._siblings
    assert len(siblings._owners) <= 4
    assert len(siblings._by_parameter) <= 7


def test_a_module_that_is_gone_leaves_its_key_to_the_next(device: str) -> None:
    backend, model = layers(device, 1)
    run(model, device)
    for _ in range(3):
        model = nn.Sequential(Layer()).to(device)
        model[0].compile(backend=backend, dynamic=True)
        gc.collect()
        run(model, device)
    assert len(backend.only.keys()) == 1


def test_siblings_beyond_the_limit_do_not_push_each_other_out(
    device: str, caplog: pytest.LogCaptureFixture
) -> None:
    backend, model = layers(device, 4, debug__aclgraph__static_capture_size_limit=2)
    for _ in range(6):
        run(model, device)
    before = backend.only.stats()["captures"]
    for _ in range(4):
        run(model, device)
    assert backend.only.stats()["captures"] == before
    assert backend.only.stats()["evictions"] == 0
    (told,) = [r.getMessage() for r in caplog.records if "more modules share this graph" in r.getMessage()]
    assert "Raise debug.aclgraph.static_capture_size_limit" in told


def test_siblings_beyond_the_limit_do_not_take_the_key_of_another_module(device: str) -> None:
    backend, model = layers(device, 4, debug__aclgraph__static_capture_size_limit=6)
    for _ in range(3):
        for rows in (3, 5):  # eight keys
            run(model, device, rows)
    stats = backend.only.stats()
    assert stats["recaptures"] == {}
    assert {kind for key in backend.only.explain()["keys"] for kind in key["kinds"]} <= {
        "static",
        "copied",
        "value",
    }
    assert (stats["captures"], stats["evictions"]) == (6, 0)
    assert stats["eager_calls"] == {TOO_RARE: 3 * 8 - 3 * 6}


def test_a_sibling_that_comes_often_is_captured_in_the_place_of_another_key(device: str) -> None:
    backend, model = layers(device, 3, debug__aclgraph__static_capture_size_limit=2)
    run(model, device)
    last, x = model[2], torch.randn(3, 4, device=device)
    with torch.no_grad():
        for _ in range(MOST):
            last(x)
    stats = backend.only.stats()
    assert (stats["captures"], stats["evictions"], stats["recaptures"]) == (3, 1, {})
    replays = stats["replays"]
    with torch.no_grad():
        last(x)
    assert backend.only.stats()["replays"] == replays + 1


@torch.no_grad()
def test_a_pinned_call_is_that_of_its_module(device: str) -> None:
    backend, model = layers(device, 2)
    run(model, device)
    x = torch.randn(3, 4, device=device)
    run_of = backend.only
    for layer in model:
        expected = layer(x)
        parameters = {tuple(p.shape): p for p in layer.parameters()}
        given = [given_for(slot, parameters, x) for slot in run_of.slots]
        torch.testing.assert_close(run_of.pin(*given)(x)[0], expected)


def given_for(slot: Slot, parameters: dict[tuple[int, ...], nn.Parameter], x: Tensor) -> Any:
    """What a call gives for an input: parameters by their shapes."""
    if slot.kind is Kind.VALUE:
        return x.shape[0]
    return parameters[tuple(slot.node.meta["val"].shape)] if slot.kind is Kind.STATIC else x


def test_a_call_of_a_sibling_does_not_look_at_the_others(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, model = layers(device, 12)
    for _ in range(2):
        run(model, device)
    looked = []

    def among(self: Siblings, known: object, args: object, captured: object) -> None:
        looked.append(known)

    monkeypatch.setattr(Siblings, "_among", among)
    replays = backend.only.stats()["replays"]
    run(model, device)
    assert backend.only.stats()["replays"] == replays + 12
    assert not looked


def test_modules_that_are_gone_leave_nothing_behind(device: str) -> None:
    siblings, captured = Siblings(), dict[Any, Any]()
    for _ in range(50):
        parameter = nn.Parameter(torch.ones(1, device=device))
        key = siblings.key_of((3,), [parameter], captured)
        siblings.captured(key, [Kind.STATIC], [parameter])
    assert len(siblings._by_parameter) == 1


@torch.no_grad()
def test_a_sibling_beyond_the_limit_is_pinned_at_once(device: str) -> None:
    backend, model = layers(device, 2, debug__aclgraph__static_capture_size_limit=1)
    run(model, device)
    x = torch.randn(3, 4, device=device)
    parameters = {tuple(p.shape): p for p in model[1].parameters()}
    pinned = backend.only.pin(*(given_for(slot, parameters, x) for slot in backend.only.slots))
    torch.testing.assert_close(pinned(x)[0], model[1](x))


@torch.no_grad()
def test_another_tensor_over_the_memory_of_a_parameter_is_no_sibling(device: str) -> None:
    backend, model = layers(device, 1)
    run(model, device)
    x = torch.randn(3, 4, device=device)
    parameters = {tuple(p.shape): p for p in model.parameters()}
    given = [given_for(slot, parameters, x) for slot in backend.only.slots]
    same = [value.detach() if isinstance(value, nn.Parameter) else value for value in given]
    torch.testing.assert_close(backend.only.pin(*same)(x)[0], model(x))
    assert len(backend.only.keys()) == 1
