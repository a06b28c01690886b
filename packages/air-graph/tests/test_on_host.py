"""What a graph of a device has to compute on the host, and what it may compute anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from air_graph import is_made_anew, is_on_host, needed_on_host

DEVICE = "cuda"  # of fake tensors: no test here runs a kernel


@torch.library.custom_op("air_on_host_tests::there", mutates_args=())
def there(value: Tensor) -> Tensor:
    """A copy on the device; `to` would ask whether torch was built for it."""
    raise NotImplementedError


@there.register_fake
def _(value: Tensor) -> Tensor:
    return torch.empty(value.shape, dtype=value.dtype, device=DEVICE)


def needed(function: Callable[..., Any]) -> list[str]:
    """The names of the calls that the host must run, of a tensor of a device and one of the host."""
    with FakeTensorMode():
        given = torch.empty(3, 4, device=DEVICE), torch.empty(3, 4)
        gm = make_fx(function)(*given)
    return [node.name for node in needed_on_host(gm.graph)]


NEEDED: list[tuple[Callable[[Tensor, Tensor], Any], list[str]]] = [
    (lambda x, h: (x * 2, h + 1), ["add"]),
    (lambda x, h: x.cpu(), ["_to_copy"]),
    (lambda x, h: there(x.cpu() + h), []),
    (lambda x, h: (x.cpu() + h, x), ["_to_copy", "add"]),
    (lambda x, h: x + there(torch.arange(4)), []),
    (lambda x, h: (x + there(torch.arange(4)), torch.arange(4)), ["arange_1"]),
    (lambda x, h: x + there(torch.rand(4)), ["rand"]),
    (lambda x, h: (x, h.topk(2)[1]), ["topk", "getitem_1"]),
    (lambda x, h: there(h.mul_(2)) + x, ["mul_"]),
    (lambda x, h: (x, h), []),
]


@pytest.mark.parametrize(("function", "expected"), NEEDED)
def test_the_host_makes_what_lies_in_its_memory_and_is_seen(
    function: Callable[..., Any], expected: list[str]
) -> None:
    found = needed(function)
    assert [name for name in found if not name.startswith("getitem") or name in expected] == expected


def test_each_call_has_a_reason() -> None:
    with FakeTensorMode():
        x = torch.empty(3, device=DEVICE)
        gm = make_fx(lambda x: (x.cpu() * 2, torch.rand(3)))(x)
    reasons = list(needed_on_host(gm.graph).values())
    assert reasons == [
        "it copies from the device to the host, which waits for it",
        "what it computes is wanted in the memory of the host",
        "the host computes it again in each call",
    ]


def test_a_graph_of_the_host_alone_needs_nothing_of_another_engine() -> None:
    gm = make_fx(lambda h: (torch.rand(3) + h,))(torch.ones(3))
    assert needed_on_host(gm.graph) == {}


def test_a_number_lies_nowhere_and_a_pair_lies_where_both_tensors_do() -> None:
    gm = make_fx(lambda h: h.topk(h.shape[0])[0], tracing_mode="symbolic")(torch.ones(3))
    found = {node.name: is_on_host(node) for node in gm.graph.nodes if node.op == "call_function"}
    assert found["topk"]
    assert not any(on_host for name, on_host in found.items() if name.startswith("sym_size"))


def test_random_numbers_of_the_host_are_made_anew_and_those_of_the_device_are_not_its_business() -> None:
    with FakeTensorMode():
        gm = make_fx(lambda x: (torch.rand(3), torch.rand(3, device=DEVICE), x + 1))(
            torch.empty(3, device=DEVICE)
        )
    assert [node.name for node in gm.graph.nodes if is_made_anew(node)] == ["rand"]


def test_operators_of_ours_look_nowhere_else() -> None:
    """An event that orders streams is a tensor of the CPU in a graph."""
    library = torch.library.Library("air_streams", "FRAGMENT")
    library.define("on_host_test(Tensor x) -> Tensor")
    library.impl("on_host_test", lambda x: torch.empty_like(x), "CompositeExplicitAutograd")
    with FakeTensorMode():
        given = torch.empty(3, device=DEVICE), torch.empty(3)
        gm = make_fx(lambda x, h: (x + 1, torch.ops.air_streams.on_host_test(h)))(*given)
    assert any("on_host_test" in node.name for node in gm.graph.nodes)
    assert not any(map(is_made_anew, gm.graph.nodes))
