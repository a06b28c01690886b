"""Wrapped mutating operators are called directly, whatever else is switched off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from air_fxpasses import DecomposeAutoFunctionalized, Pipeline, default_passes
from air_fxpasses.testing import compiled_graph, copied, difference, run_graph


def add_to(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(y)


def add_one_to_all(xs: list[torch.Tensor]) -> None:
    for x in xs:
        x.add_(1)


@pytest.fixture(scope="module", autouse=True)
def _operators() -> Iterator[None]:
    with torch.library._scoped_library("air_test_wrap", "FRAGMENT") as library:
        for schema, kernel in (
            ("bump(Tensor(a!) x, Tensor y) -> ()", add_to),
            (
                "bump_two(Tensor(a!) x, Tensor(b!) y) -> Tensor",
                lambda x, y: x.add_(y).sum() + y.mul_(2).sum(),
            ),
            ("bump_all(Tensor(a!)[] xs) -> ()", add_one_to_all),
        ):
            name = schema.partition("(")[0]
            library.define(schema)
            library.impl(name, kernel, "CompositeExplicitAutograd")
            result = (lambda x, y: x.new_empty(())) if name == "bump_two" else (lambda *a: None)
            torch.library.register_fake(f"air_test_wrap::{name}", result, lib=library)
        yield


def bump(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    torch.ops.air_test_wrap.bump(x, y)
    return x * 2


def bump_view(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    torch.ops.air_test_wrap.bump(x[1], y[0])
    return x.sum()


def bump_column_of_intermediate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x + y
    torch.ops.air_test_wrap.bump(z[:, 1:2], y[:, :1])
    return z


def bump_two(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.ops.air_test_wrap.bump_two(x, y) + x


def bump_all(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    torch.ops.air_test_wrap.bump_all([x[0], y, x[1]])
    return x + y


def reads_the_old_value(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x + 1
    old = z.clone()
    torch.ops.air_test_wrap.bump(z, y)
    return old + z


PROGRAMS = [bump, bump_view, bump_column_of_intermediate, bump_two, bump_all, reads_the_old_value]


def inputs() -> list[torch.Tensor]:
    return [torch.arange(12.0).reshape(3, 4), torch.ones(3, 4)]


def is_wrapped(gm: torch.fx.GraphModule) -> bool:
    return any("auto_functionalized" in str(n.target) for n in gm.graph.nodes)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("enabled", [False, True])
def test_W24_wrappers_are_decomposed_with_every_other_pass_on_or_off(
    function: Callable[..., Any], dynamic: bool, enabled: bool
) -> None:
    gm = compiled_graph(function, *inputs(), dynamic=dynamic)
    assert is_wrapped(gm)
    made = real_inputs(gm)
    eager = run_graph(gm, copied(made))
    passes = default_passes(lambda one: enabled or not one.option)
    report = Pipeline(passes, verify=True).run(gm, made)
    assert not any(s.rolled_back for s in report.steps), report.explain()
    assert not is_wrapped(gm)
    assert difference(eager, run_graph(gm, copied(made))) is None


def real_inputs(gm: torch.fx.GraphModule) -> list[Any]:
    from air_fxpasses._verify import real_inputs as made

    found = made(gm, None)
    assert found is not None
    return found


def test_W24_no_copy_is_left_when_the_input_is_changed_anyway() -> None:
    gm = compiled_graph(bump, *inputs())
    report = Pipeline(default_passes()).run(gm)
    names = [str(n.target) for n in gm.graph.nodes if n.op == "call_function"]
    assert names == ["air_test_wrap.bump.default", "aten.mul.Tensor"], report.explain()


def test_a_copy_stays_where_the_old_value_is_read() -> None:
    gm = compiled_graph(reads_the_old_value, *inputs())
    Pipeline([DecomposeAutoFunctionalized()]).run(gm)
    assert "aten.clone.default" in [str(n.target) for n in gm.graph.nodes]
    assert DecomposeAutoFunctionalized.ensures[0].find_violation(gm) is None
