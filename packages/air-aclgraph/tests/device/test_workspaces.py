"""What a patched operator works in: asked for new values, shared on a stream, and never smaller than before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from air_aclgraph._runtime import UpdatableCall
from air_aclgraph.device._workspaces import Workspace, Workspaces, largest

SCHEMA = "(Tensor x, Tensor lengths, *, int heads=1, Tensor(a!) out{}) -> {}"


@pytest.fixture
def asked() -> Iterator[list[list[int]]]:
    """Operators that need a byte for each unit of length; the lengths they were asked for."""
    lengths: list[list[int]] = []

    def query(x: Tensor, told: Tensor, *, heads: int = 1, out: Tensor) -> Tensor:
        lengths.append(told.tolist())
        return x.new_empty(int(told.sum()), dtype=torch.uint8)

    with torch.library._scoped_library("workspaces", "DEF") as library:
        library.define("_attend" + SCHEMA.format(", Tensor? workspace=None", "()"))
        library.define("_attend_get_workspace" + SCHEMA.format("", "Tensor"))
        library.define("plain" + SCHEMA.format(", Tensor? workspace=None", "()"))
        library.define("without" + SCHEMA.format("", "()"))
        library.define("_without_get_workspace" + SCHEMA.format("", "Tensor"))
        library.define("_plain_get_max_workspace" + SCHEMA.format("", "Tensor"))
        for name in ("_attend_get_workspace", "_without_get_workspace", "_plain_get_max_workspace"):
            library.impl(name, query, "CPU")
        yield lengths


X, OUT = torch.ones(2), torch.ones(2)


def of(workspaces: Workspaces, name: str, stream: str = "s", **also: Any) -> Workspace | None:
    call = UpdatableCall(getattr(torch.ops.workspaces, name).default, {"lengths": 1})
    return workspaces.of(stream, call, *call_with([3, 4], **also))


def call_with(lengths: list[int], **also: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    return (X, torch.tensor(lengths)), {"out": OUT, **also}


def serve(workspace: Workspace, *lengths: int) -> int:
    args, kwargs = call_with(list(lengths))
    return workspace.serve({"lengths": args[1]}, args, kwargs).numel()


def test_it_grows_with_the_values_and_has_some_to_spare(asked: list[list[int]]) -> None:
    workspace = of(Workspaces(), "_attend")
    assert workspace is not None
    first = workspace.memory
    assert first.numel() == 7
    assert serve(workspace, 3, 4) == 7
    assert serve(workspace, 3, 5) == 16
    assert serve(workspace, 8, 8) == 16
    assert serve(workspace, 1, 1) == 16
    assert serve(workspace, 9, 8) == 34
    assert workspace._held[0] is first  # a task that was patched before may be working in it


def test_values_of_the_last_patch_are_not_asked_for_again(asked: list[list[int]]) -> None:
    workspace = of(Workspaces(), "_attend")
    assert workspace is not None
    for lengths in ((3, 4), (3, 4), (5, 5), (5, 5), (3, 4)):
        serve(workspace, *lengths)
    assert asked == [[3, 4], [3, 4], [5, 5], [3, 4]]


def test_operators_of_one_kind_share_it_on_a_stream(asked: list[list[int]]) -> None:
    workspaces = Workspaces()
    first = of(workspaces, "_attend")
    assert of(workspaces, "_attend") is first
    assert of(workspaces, "_attend", stream="t") is not first
    assert of(workspaces, "_attend", heads=2) is not first


def test_an_operator_that_takes_none_or_was_given_some_has_none(asked: list[list[int]]) -> None:
    workspaces = Workspaces()
    assert of(workspaces, "without") is None
    assert of(workspaces, "plain") is None
    assert of(workspaces, "_attend", workspace=torch.ones(1)) is None
    assert asked == []


def test_what_any_values_need_is_asked_for_where_an_operator_tells_it(asked: list[list[int]]) -> None:
    args, kwargs = call_with([3, 4])
    plain, attend = (getattr(torch.ops.workspaces, name).default for name in ("plain", "_attend"))
    found = largest(UpdatableCall(plain, {}), args, dict(kwargs))
    assert found is not None
    assert found.numel() == 7
    assert largest(UpdatableCall(attend, {}), args, dict(kwargs)) is None
