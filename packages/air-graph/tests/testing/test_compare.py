"""What counts as a difference, and how far rounded values may be off."""

from __future__ import annotations

import torch

from air_graph.testing import Trace, differences
from air_graph.testing._compare import same_values
from air_graph.testing._run import Step, ValueView, look


def traced(**values: object) -> Trace:
    return Trace((Step("r0 = f(a0)", look(dict(values))),))


def kinds(left: Trace, right: Trace) -> list[str]:
    return [d.kind for d in differences(left, right, True)]


def test_equal_values_that_lie_alike_do_not_differ() -> None:
    assert not kinds(traced(r0=torch.ones(2, 3)), traced(r0=torch.ones(2, 3)))


def test_each_property_of_a_tensor_has_its_kind() -> None:
    right = traced(r0=torch.ones(2, 3))
    assert kinds(right, traced(r0=torch.zeros(2, 3))) == ["value"]
    assert kinds(right, traced(r0=torch.ones(3, 2).t())) == ["stride"]
    assert kinds(right, traced(r0=torch.ones(8)[2:].reshape(2, 3))) == ["offset"]
    assert kinds(right, traced(r0=torch.ones(2, 3, dtype=torch.float64))) == ["dtype"]
    assert kinds(right, traced(r0=torch.ones(3, 2)))[0] == "size"
    assert kinds(right, traced(r0=torch.ones(2, 3, requires_grad=True))) == ["requires_grad"]
    assert kinds(right, traced(r0=None)) == ["value"]
    assert kinds(right, traced(r0=[torch.ones(2, 3)]))[0] == "structure"


def test_conjugate_marks_are_seen() -> None:
    value = torch.ones(2, dtype=torch.complex64)
    assert kinds(traced(r0=value), traced(r0=value.conj())) == ["bits"]


def test_strides_that_reach_no_element_have_kinds_of_their_own() -> None:
    assert kinds(traced(r0=torch.ones(1, 3)), traced(r0=torch.ones(3, 1).t())) == ["stride of a size 1"]
    empty = traced(r0=torch.ones(0, 3))
    assert kinds(empty, traced(r0=torch.ones(3, 0).t())) == ["stride of an empty tensor"]


def test_memory_in_common_is_seen_across_storages() -> None:
    base = torch.ones(4)
    assert kinds(traced(a0=base, b0=base.clone()), traced(a0=base, b0=base[:])) == ["storage"]
    over = torch.frombuffer(bytearray(16), dtype=torch.float32)
    assert look({"a0": over, "b0": over})["b0"].storage == "a0"


def test_one_object_is_told_from_two_on_one_storage() -> None:
    base = torch.ones(4)
    assert kinds(traced(a0=base, b0=base[:]), traced(a0=base, b0=base)) == ["identity"]


def test_gradients_are_looked_at() -> None:
    leaf = torch.ones(2, requires_grad=True)
    leaf.sum().backward()
    assert set(look({"a0": leaf})) == {"a0", "a0.grad"}


def test_the_gravest_difference_of_the_first_step_comes_first() -> None:
    one = Trace((Step("s", {"a": ValueView(torch.ones(2), (2,), (1,), 0), "b": ValueView(1)}),))
    other = Trace((Step("s", {"a": ValueView(torch.ones(2), (2,), (1,), 3), "b": ValueView(2)}),))
    assert kinds(one, other) == ["value", "offset"]


def test_rounded_values_may_be_off_and_exact_ones_may_not() -> None:
    value = torch.tensor([1.0, float("nan"), float("inf")])
    near = value + 1e-5
    assert same_values(value, near, is_exact=False)
    assert not same_values(value, near, is_exact=True)
    assert not same_values(value, value + 1e-2, is_exact=False)
    assert same_values(value, value.clone(), is_exact=True)
    assert not same_values(torch.tensor([1, 2]), torch.tensor([1, 3]), is_exact=False)
    complex_ = torch.complex(value, value)
    assert same_values(complex_, complex_.clone(), is_exact=True)
