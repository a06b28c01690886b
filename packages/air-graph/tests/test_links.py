"""Whose memory a value lies in, judged by the storages of what eager makes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import make_fx

from air_graph import link_of, links_of, owner_of

aten = torch.ops.aten


def nodes_of(function: object, *inputs: Tensor) -> list[Node]:
    return list(make_fx(function)(*inputs).graph.nodes)  # type: ignore[arg-type]  # any function


def test_a_chain_of_views_leads_to_its_base() -> None:
    x, *_, last, _ = nodes_of(lambda x: x.t()[1:].unsqueeze(0), torch.ones(3, 4))
    assert owner_of(last) is x
    assert [link.kind for link in links_of(last)] == ["view"] * len(list(links_of(last)))


def test_a_computed_value_owns_its_memory() -> None:
    *_, total, _ = nodes_of(lambda x: x + 1, torch.ones(3))
    assert link_of(total) is None
    assert owner_of(total) is total


def test_one_of_several_views_and_one_of_several_values_are_told_apart() -> None:
    x, *_, part, _ = nodes_of(lambda x: x.split(2)[1], torch.ones(4))
    assert owner_of(part) is x
    *_, values, _ = nodes_of(lambda x: x.sort()[0], torch.ones(4))
    assert owner_of(values) is values


@pytest.mark.parametrize("split", [torch.unsafe_chunk, torch.unsafe_split])
def test_a_part_of_a_split_whose_schema_says_nothing_lies_in_what_was_split(split: Any) -> None:
    x, *_, part, _ = nodes_of(lambda x: split(x, 2)[1], torch.ones(4))
    assert owner_of(part) is x


def test_what_an_operator_wrote_is_the_argument_itself() -> None:
    x, written, _ = nodes_of(lambda x: x.add_(1), torch.ones(4))
    link = link_of(written)
    assert link is not None
    assert (link.base, link.kind) == (x, "same")


@pytest.mark.parametrize("copies", [False, True])
def test_an_operator_that_may_copy_is_judged_by_its_example(copies: bool) -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.ones(4)
    same = graph.call_function(aten.reshape.default, (x, [2, 2]))
    same.meta["val"] = torch.ones(2, 2) if copies else x.meta["val"].view(2, 2)
    assert owner_of(same) is (same if copies else x)
