"""Which operators are collectives, and the argument that names their group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed._functional_collectives

from air_graph import (
    collectives_of_other_libraries,
    group_argument_of,
    is_collective,
    is_functional_collective,
    register_group_argument,
    waits_for_collective,
)

functional: Any = torch.ops._c10d_functional


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    made = torch.library.Library("collectives_test", "FRAGMENT")
    made.define("reduced(Tensor x, str hcom) -> Tensor")
    made.define("passed_on(Tensor x, str ring) -> Tensor")
    made.define("grouped(Tensor x, int group) -> Tensor")
    yield made
    made._destroy()


@pytest.mark.parametrize(
    ("op", "argument"),
    [
        (functional.all_reduce.default, "group_name"),
        (torch.ops.c10d.allreduce_.default, "process_group"),
        (torch.ops.aten.add.Tensor, None),
        (torch.ops.aten.native_group_norm.default, None),
        (len, None),
    ],
    ids=str,
)
def test_a_collective_names_its_group(op: Any, argument: str | None) -> None:
    assert group_argument_of(op) == argument
    assert is_collective(op) is (argument is not None)


def test_waiting_for_a_collective_is_part_of_it() -> None:
    wait = functional.wait_tensor.default
    assert is_collective(wait)
    assert waits_for_collective(wait)
    assert not waits_for_collective(functional.all_reduce.default)
    assert is_functional_collective(functional.all_reduce.default)
    assert not is_functional_collective(torch.ops.c10d.allreduce_.default)


def test_an_operator_of_any_library_is_known_by_its_argument_or_registered(library: Any) -> None:
    ops = torch.ops.collectives_test
    assert is_collective(ops.reduced.default)
    assert not is_collective(ops.grouped.default), "a number is no group"
    assert not is_collective(ops.passed_on.default)
    register_group_argument(ops.passed_on.default, "ring")
    assert group_argument_of(ops.passed_on.default) == "ring"


def test_the_collectives_of_other_libraries_are_those_that_are_loaded(library: Any) -> None:
    ops = torch.ops.collectives_test
    found = collectives_of_other_libraries()
    assert ops.reduced.default in found
    assert ops.grouped.default not in found
    assert functional.all_reduce.default not in found
    register_group_argument(ops.grouped.default, "group")
    assert ops.grouped.default in collectives_of_other_libraries()
