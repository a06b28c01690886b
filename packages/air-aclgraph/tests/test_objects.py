"""Inputs that are neither tensor nor number: handed on, part of the key, and never frozen with their state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._library.opaque_object import register_opaque_type
from torch._opaque_base import OpaqueBase
from torch._subclasses.fake_tensor import FakeTensorMode

from aclgraph_backend import Backend
from air_aclgraph import compile_graph, uncapturable
from air_aclgraph.errors import InputRefused


class Gain(OpaqueBase):
    """An object with state."""

    def __init__(self, factor: float) -> None:
        self.factor = factor


class Power(OpaqueBase):
    """A value: two that are equal are one."""

    def __init__(self, exponent: int) -> None:
        self.exponent = exponent

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Power) and self.exponent == other.exponent

    def __hash__(self) -> int:
        return hash(self.exponent)

    def __fx_repr__(self) -> tuple[str, dict[str, type]]:
        return f"Power({self.exponent})", {"Power": Power}


for kind in (Gain, Power):
    kind.__module__ = "objects"  # pytest's name for this module is none that a schema can hold
register_opaque_type(Gain, typ="reference")
register_opaque_type(Power, typ="value", hoist=True)


@pytest.fixture(autouse=True, scope="module")
def operators() -> Iterator[None]:
    with torch.library._scoped_library("objects", "FRAGMENT") as library:
        library.define("amplified(Tensor x, objects.Gain gain) -> Tensor")
        library.define("raised(Tensor x, objects.Power power) -> Tensor")
        library.impl("amplified", lambda x, gain: x * gain.factor, "CompositeExplicitAutograd")
        library.impl("raised", lambda x, power: x**power.exponent, "CompositeExplicitAutograd")
        for name in ("amplified", "raised"):
            torch.library.register_fake(f"objects::{name}", lambda x, _: torch.empty_like(x), lib=library)
        yield


def amplified(x: Tensor, gain: Gain) -> Tensor:
    return torch.ops.objects.amplified(x + 1, gain) * 2  # type: ignore[no-any-return]  # operators have no types


def raised(x: Tensor, power: Power) -> Tensor:
    return torch.ops.objects.raised(x + 1, power) * 2  # type: ignore[no-any-return]  # operators have no types


def both(function: Any, backend: Backend, *objects: Any) -> None:
    compiled: Any = torch.compile(function, backend=backend)
    for number, one in enumerate(objects):
        x = torch.full((3,), float(number))
        torch.testing.assert_close(compiled(x, one), function(x, one))


def test_another_object_is_another_key_and_the_same_one_is_replayed() -> None:
    backend, first, second = Backend(), Gain(2.0), Gain(3.0)
    both(amplified, backend, first, second, first, second)
    assert backend.only.stats()["captures"] == 2
    assert backend.only.stats()["replays"] == 2
    (slot,) = (slot for slot in backend.only.explain()["inputs"] if slot["kind"] == "object")
    assert "a Gain, which operators read" in slot["because"]


def test_a_replay_on_the_cpu_sees_the_state_that_an_object_has_then() -> None:
    backend, gain = Backend(), Gain(2.0)
    both(amplified, backend, gain)
    gain.factor = 5.0
    both(amplified, backend, gain)
    assert all(executable.stats()["captures"] == 1 for executable in backend.executables)


def test_a_value_is_the_key_that_it_is_equal_to() -> None:
    backend = Backend()
    both(raised, backend, Power(2), Power(2), Power(2))
    assert sum(executable.stats()["captures"] for executable in backend.executables) == 1


def test_a_dead_object_s_number_does_not_stand_for_a_new_one() -> None:
    backend = Backend()
    both(amplified, backend, *(Gain(float(factor)) for factor in range(5)))
    compiled = torch.compile(amplified, backend=backend)
    for factor in range(20):  # each is gone before the next is made, and may get its number
        x = torch.ones(3)
        torch.testing.assert_close(compiled(x, Gain(factor)), torch.full((3,), 4.0 * factor))


class Reading(nn.Module):
    """An operator and the object that it reads, which belongs to the module."""

    gain = Gain(2.0)


def reading(op: Any, *, owned: bool, device: str = "cuda") -> torch.fx.GraphModule:
    """A graph with one operator that is given an object: an input, or an attribute of the module.

    Its tensors are fake ones, so that they can be of a device on any machine.
    """
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    with FakeTensorMode():
        value = torch.empty(3, device=device)
    x.meta["val"] = value
    given = graph.get_attr("gain") if owned else graph.placeholder("given")
    given.meta["val"] = None if owned else (Gain(2.0) if op is torch.ops.objects.amplified else Power(2))
    made = graph.call_function(op.default, (x, given))
    made.meta["val"] = value
    graph.output((made,))
    return torch.fx.GraphModule(Reading(), graph)


@pytest.mark.parametrize("owned", [False, True])
def test_on_a_device_what_reads_an_object_with_state_is_left_out_of_captures(owned: bool) -> None:
    gm = reading(torch.ops.objects.amplified, owned=owned)
    (left,) = uncapturable(gm, torch.device("cuda")).values()
    assert left.target == "objects.amplified.default"
    assert "Gain, whose state may be another" in left.reason
    assert not uncapturable(gm, torch.device("cpu"))


def test_on_a_device_what_reads_a_value_is_captured() -> None:
    assert not uncapturable(reading(torch.ops.objects.raised, owned=False), torch.device("cuda"))


def test_other_things_than_tensors_numbers_and_objects_are_refused() -> None:
    gm = reading(torch.ops.objects.raised, owned=False, device="cpu")
    with pytest.raises(InputRefused, match="input 'given' is a list"):
        compile_graph(gm, [torch.ones(3), [torch.ones(1)]])


def test_a_capture_on_a_device_does_not_freeze_the_state_of_an_object(accelerator: str) -> None:
    with pytest.raises(Exception, match="the host reads a Gain") as caught:
        torch.compile(amplified, backend=Backend(accelerator))(torch.ones(3, device=accelerator), Gain(2.0))
    assert "test_objects.py" in str(caught.value)
