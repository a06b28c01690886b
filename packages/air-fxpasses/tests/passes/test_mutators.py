"""S16: operators with several results write them into their arguments, each where it may."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.fx import GraphModule

from air_fxpasses import Pipeline, default_passes, register_inplace_twin
from air_fxpasses.tables import unregister_inplace_twin
from air_fxpasses.testing import copied, difference, functional_graph, run_graph


def update_(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    a.add_(x)
    b.mul_(x)
    return a + b


def update(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a, b = a.clone(), b.clone()
    return update_(a, b, x), a, b


def shift_(by: torch.Tensor, a: torch.Tensor) -> None:
    a.add_(by)


@pytest.fixture(scope="module", autouse=True)
def _operators() -> Iterator[None]:
    with torch.library._scoped_library("air_test_two", "FRAGMENT") as library:
        library.define("update(Tensor a, Tensor b, Tensor x) -> (Tensor, Tensor, Tensor)")
        library.define("update_(Tensor(a!) a, Tensor(b!) b, Tensor x) -> Tensor")
        library.impl("update", update, "CompositeExplicitAutograd")
        library.impl("update_", update_, "CompositeExplicitAutograd")
        library.define("shift(Tensor by, Tensor a) -> Tensor")
        library.define("shift_(Tensor by, Tensor(a!) a) -> ()")
        library.impl("shift", lambda by, a: a + by, "CompositeExplicitAutograd")
        library.impl("shift_", shift_, "CompositeExplicitAutograd")
        torch.library.register_fake("air_test_two::shift", lambda by, a: torch.empty_like(a), lib=library)
        torch.library.register_fake("air_test_two::shift_", lambda by, a: None, lib=library)
        torch.library.register_fake(
            "air_test_two::update", lambda a, b, x: tuple(torch.empty_like(a) for _ in range(3)), lib=library
        )
        torch.library.register_fake("air_test_two::update_", lambda a, b, x: torch.empty_like(a), lib=library)
        register_inplace_twin("air_test_two::update", "air_test_two::update_", (0, "a", "b"))
        register_inplace_twin("air_test_two::shift", "air_test_two::shift_", ("a",))
        yield
        unregister_inplace_twin("air_test_two::shift")
        unregister_inplace_twin("air_test_two::update")


def call(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> Any:
    return torch.ops.air_test_two.update(a, b, x)


def ran(function: Callable[..., Any], *inputs: torch.Tensor) -> tuple[GraphModule, list[str], list[str]]:
    gm = functional_graph(function, *inputs)
    eager = run_graph(gm, copied(inputs))
    report = Pipeline(default_passes(), verify=True).run(gm, inputs)
    assert not any(s.rolled_back for s in report.steps), report.explain()
    assert difference(eager, run_graph(gm, copied(inputs))) is None
    ops = [str(n.target).removesuffix(".default") for n in gm.graph.nodes if n.op == "call_function"]
    return gm, ops, [r.reason for r in report.refusals]


a, b, x = torch.arange(4.0), torch.ones(4), torch.full((4,), 2.0)


def test_S16_both_inputs_are_written_and_nothing_is_copied() -> None:
    def f(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> Any:
        y, new_a, new_b = call(a, b, x)
        a.copy_(new_a)
        b.copy_(new_b)
        return y + new_a

    _, ops, _ = ran(f, a, b, x)
    assert ops == ["air_test_two.update_", "aten.add_.Tensor"]


def test_S16_intermediates_are_written() -> None:
    _, ops, _ = ran(lambda a, b, x: sum(call(a + 1, b + 1, x)), a, b, x)
    assert "air_test_two.update_" in ops
    assert "aten.clone" not in ops


def test_W22_an_argument_read_later_is_copied_first_and_the_other_one_is_written() -> None:
    def f(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> Any:
        first, second = a + 1, b + 1
        y, new_a, new_b = call(first, second, x)
        return y + new_a + new_b + first

    _, ops, _ = ran(f, a, b, x)
    assert ops.count("aten.clone") == 1
    assert "air_test_two.update_" in ops


def test_W22_when_every_old_value_is_read_later_the_functional_form_stays_with_the_reason() -> None:
    def f(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> Any:
        first, second = a + 1, b + 1
        y, new_a, new_b = call(first, second, x)
        return y + new_a + new_b + first + second

    _, ops, reasons = ran(f, a, b, x)
    assert "air_test_two.update" in ops
    assert "the old value is read later" in reasons


def test_W22_one_tensor_for_both_arguments_is_refused() -> None:
    _, ops, reasons = ran(lambda a, x: sum(call((z := a + 1), z, x)), a, x)
    assert "air_test_two.update" in ops
    assert "the same tensor is passed to it twice" in reasons


def test_S16_overlapping_arguments_are_refused_and_disjoint_ones_are_not() -> None:
    storage = torch.zeros(8)
    _, ops, _ = ran(lambda s, x: sum(call((z := s + 1)[:4], z[4:], x)), storage, x)
    assert "air_test_two.update_" in ops
    _, ops, reasons = ran(lambda s, x: sum(call((z := s + 1)[:4], z[2:6], x)), storage, x)
    assert "air_test_two.update" in ops
    assert any("overlaps the memory it would write" in r for r in reasons)


def test_S16_a_result_nobody_takes_is_written_too() -> None:
    _, ops, _ = ran(lambda a, b, x: call(a + 1, b + 1, x)[0], a, b, x)
    assert "air_test_two.update_" in ops


def test_S16_an_argument_that_only_one_copy_back_covers_keeps_the_other_input() -> None:
    def f(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> Any:
        y, new_a, new_b = call(a, b, x)
        a.copy_(new_a)
        return y + new_b

    _, ops, _ = ran(f, a, b, x)
    assert ops.count("aten.clone") == 1
    assert "air_test_two.update_" in ops


def test_S24_an_operator_whose_in_place_form_returns_nothing_writes_the_argument_that_the_row_names() -> None:
    def f(a: torch.Tensor, x: torch.Tensor) -> Any:
        y = torch.ops.air_test_two.shift(x, a * 2)
        a.copy_(torch.ops.air_test_two.shift(y, a))
        return y.sum(), x + 1

    _, ops, _ = ran(f, a, x)
    assert ops.count("air_test_two.shift_") == 2
    assert "air_test_two.shift" not in ops
    assert "aten.copy_" not in ops


def test_an_old_value_that_is_read_later_keeps_such_an_operator_out_of_place() -> None:
    def f(a: torch.Tensor, x: torch.Tensor) -> Any:
        b = a * 2
        return torch.ops.air_test_two.shift(x, b), b + 1

    _, ops, reasons = ran(f, a, x)
    assert "air_test_two.shift" in ops
    assert any("read later" in reason for reason in reasons)
