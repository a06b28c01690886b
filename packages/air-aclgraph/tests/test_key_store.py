"""What is known of a key stays as long as its capture, and of other keys as long as there is room."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from aclgraph_backend import executable
from air_aclgraph import _key_store
from air_aclgraph._executable import Executable


def scaled(x: Tensor) -> tuple[Tensor, ...]:
    return (x * x.shape[0],)


def of_many_sizes(device: str, limit: int) -> Executable:
    x = torch.ones(2, 2, device=device)
    return executable(
        scaled,
        x,
        device=device,
        dynamic=True,
        debug__aclgraph__static_capture_size_limit=limit,
        air__outputs="kept",
    )


def call(run: Executable, rows: int, device: str) -> Tensor:
    result: Tensor = run(torch.ones(rows, 2, device=device))[0]
    return result


def test_N25_the_policy_of_a_living_capture_is_not_forgotten(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_key_store, "POLICIES_LIMIT", 2)
    run = of_many_sizes(device, limit=64)
    handle = run.pin(torch.ones(2, 2, device=device))
    assert run._keys.policies[2,].keeping.pinned
    for rows in range(3, 12):
        call(run, rows, device)
    assert set(run._keys.policies) == set(run.keys())
    assert run._keys.policies[2,].keeping.pinned, "its callers would get the memory that the handle writes"
    run.invalidate()
    kept = call(run, 2, device)
    del handle
    assert kept.eq(2).all()


def test_what_is_known_of_keys_without_a_capture_is_bounded(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_key_store, "POLICIES_LIMIT", 5)
    run = of_many_sizes(device, limit=3)
    for rows in range(2, 40):
        for _ in range(20):
            call(run, rows, device)
        if len(run._keys.policies) == 4:
            run._making.watches.begin((rows,), [0], 100)
    assert run.stats()["evictions"] > 5
    assert len(run._keys.policies) == 5
    assert set(run.keys()) < set(run._keys.policies)
    assert not run._making.watches._watches.keys() - run._keys.policies.keys()


def test_the_policies_that_were_asked_for_last_stay(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_key_store, "POLICIES_LIMIT", 3)
    run = of_many_sizes(device, limit=64)
    for key in ((2,), (3,), (4,), (2,), (5,)):
        run._keys.policy(key)
    assert list(run._keys.policies) == [(4,), (2,), (5,)]
