"""A collective whose result is dropped runs in each step of training: the other ranks wait for it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor
from torch.utils.checkpoint import checkpoint

JOINT = {"experimental_config.aot_config_enable_joint_graph": True}
MODES = ("reduce-overhead", "max-autotune")


@pytest.fixture
def group() -> Iterator[Any]:
    dist.init_process_group("gloo", store=torch._C._distributed_c10d.HashStore(), rank=0, world_size=1)
    try:
        yield dist.group.WORLD
    finally:
        dist.destroy_process_group()


def started(function: Callable[[Tensor], Tensor], group: Any) -> int:
    """How many collectives the third step of a function starts, forward and backward."""
    before = 0
    for _ in range(3):
        before = group._get_sequence_number_for_group()
        function(torch.randn(4, requires_grad=True)).sum().backward()
    found: int = group._get_sequence_number_for_group()
    return found - before


@pytest.mark.parametrize("options", [{}, JOINT], ids=["divided", "joined"])
@pytest.mark.parametrize("mode", MODES)
def test_N22_a_collective_of_the_forward_whose_result_is_dropped(
    mode: str, options: dict[str, Any], group: Any
) -> None:
    def step(x: Tensor) -> Tensor:
        functional.all_reduce(x * 2, "sum", group)
        functional.all_gather_tensor(x, 0, group)
        return x.relu().sum()

    assert started(torch.compile(step, backend="air", options={"mode": mode, **options}), group) == 2


@pytest.mark.parametrize("options", [{}, JOINT], ids=["divided", "joined"])
@pytest.mark.parametrize("mode", MODES)
def test_N22_a_collective_of_the_backward_whose_result_is_dropped(
    mode: str, options: dict[str, Any], group: Any
) -> None:
    class Told(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            functional.all_reduce(gradient * 2, "sum", group)
            return gradient

    def step(x: Tensor) -> Tensor:
        told: Tensor = Told.apply(x.sin())  # type: ignore[no-untyped-call]
        return told.sum()

    assert started(torch.compile(step, backend="air", options={"mode": mode, **options}), group) == 1


@pytest.mark.parametrize("mode", MODES)
def test_N22_a_collective_whose_result_is_returned_and_one_that_is_dropped(mode: str, group: Any) -> None:
    def step(x: Tensor) -> Tensor:
        functional.broadcast(x.detach() + 1, 0, group)
        gathered: Tensor = functional.all_gather_tensor_autograd(x.sin(), 0, group)
        return gathered * 2

    assert started(torch.compile(step, backend="air", mode=mode), group) == 3


@pytest.mark.parametrize("options", [{}, JOINT], ids=["divided", "joined"])
@pytest.mark.parametrize("mode", MODES)
def test_N22_a_collective_of_another_library_is_known_by_its_group(
    mode: str, options: dict[str, Any]
) -> None:
    ran: list[str] = []

    def exchange(x: Tensor, hcom: str) -> Tensor:
        ran.append(hcom)
        return x.clone()

    library = torch.library.Library("dropped_test", "FRAGMENT")
    library.define("exchanged(Tensor x, str hcom) -> Tensor")
    library.impl("exchanged", exchange, "CompositeExplicitAutograd")
    library.impl("exchanged", lambda x, hcom: torch.empty_like(x), "Meta")
    library.impl("exchanged", torch.library.fallthrough_kernel, "AutogradCPU")

    def step(x: Tensor) -> Tensor:
        torch.ops.dropped_test.exchanged(x.detach(), "dropped")
        scale = torch.ops.dropped_test.exchanged(x.detach(), "used")
        result: Tensor = (x.relu() * scale).sum()
        return result

    compiled = torch.compile(step, backend="air", options={"mode": mode, **options})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            ran.clear()
            compiled(torch.randn(4, requires_grad=True)).backward()
    library._destroy()
    assert ran == ["dropped", "used"]


@pytest.mark.parametrize("mode", MODES)
def test_N22_a_collective_on_whose_result_a_dropped_one_depends_runs_once(mode: str, group: Any) -> None:
    def step(x: Tensor) -> Tensor:
        y = x.sin()
        whole = functional.all_reduce(y, "sum", group)
        functional.all_gather_tensor(whole.cos(), 0, group)
        return (y * y).sum()

    assert started(torch.compile(step, backend="air", options={"mode": mode}), group) == 2


@pytest.mark.parametrize("options", [{}, JOINT], ids=["divided", "joined"])
@pytest.mark.parametrize("results", ["()", "Tensor", "(Tensor, Tensor)"])
def test_N22_a_collective_that_the_backward_of_an_operator_calls_is_not_dropped(
    results: str, options: dict[str, Any]
) -> None:
    ran: list[str] = []
    count = 0 if results == "()" else results.count("Tensor")

    def given(x: Tensor) -> Any:
        made = tuple(x.clone() for _ in range(count))
        return made[0] if count == 1 else made or None

    def exchange(x: Tensor, hcom: str) -> Any:
        ran.append(hcom)
        return given(x)

    library = torch.library.Library("dropped_late", "FRAGMENT")
    name = f"exchanged_{count}_{len(options)}"
    library.define(f"{name}(Tensor x, str hcom) -> {results}")
    library.impl(name, exchange, "CompositeExplicitAutograd")
    library.impl(name, lambda x, hcom: given(x), "Meta")
    library.define(f"tripled_{name}(Tensor x) -> Tensor")
    library.impl(f"tripled_{name}", lambda x: x * 3, "CompositeExplicitAutograd")
    library.impl(f"tripled_{name}", torch.empty_like, "Meta")
    exchanged, tripled = (getattr(torch.ops.dropped_late, each) for each in (name, f"tripled_{name}"))

    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        exchanged(gradient, "late")
        return gradient * 3

    torch.library.register_autograd(f"dropped_late::tripled_{name}", backward, lib=library)
    compiled = torch.compile(
        lambda x: tripled(x).sum(), backend="air", options={"mode": "reduce-overhead", **options}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            ran.clear()
            compiled(torch.randn(4, requires_grad=True)).backward()
    library._destroy()
    assert ran == ["late"]


@pytest.mark.filterwarnings("error::air_backend.eager_calls.NotTraced")
@pytest.mark.parametrize("mode", MODES)
def test_N22_a_checkpoint_runs_a_collective_of_another_library_again_as_in_eager(mode: str) -> None:
    ran: list[str] = []

    def exchange(x: Tensor, hcom: str) -> Tensor:
        ran.append(hcom)
        return x * 2

    library = torch.library.Library("dropped_again", "FRAGMENT")
    library.define(f"exchanged_{len(mode)}(Tensor x, str hcom) -> Tensor")
    library.impl(f"exchanged_{len(mode)}", exchange, "CompositeExplicitAutograd")
    library.impl(f"exchanged_{len(mode)}", lambda x, hcom: torch.empty_like(x), "Meta")
    exchanged = getattr(torch.ops.dropped_again, f"exchanged_{len(mode)}")

    def step(x: Tensor) -> Tensor:
        def part(x: Tensor) -> Tensor:
            result: Tensor = (x * exchanged(x.detach(), "again")).sin()
            return result

        result: Tensor = checkpoint(part, x, use_reentrant=False).sum()
        return result

    compiled = torch.compile(step, backend="air", options={"mode": mode})
    for _ in range(3):
        ran.clear()
        x = torch.ones(4, requires_grad=True)
        compiled(x).backward()
        torch.testing.assert_close(x.grad, 2 * torch.full((4,), 2.0).cos())
    library._destroy()
    assert ran == ["again", "again"]


@pytest.mark.skipif(
    torch.__version__ < "2.13", reason="torch 2.11 computes it once, whoever divides the graph"
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_N22_a_collective_that_a_checkpoint_drops_runs_again_as_in_eager() -> None:
    ran: list[str] = []
    library = torch.library.Library("dropped_twice", "FRAGMENT")
    library.define("exchanged(Tensor x, str hcom) -> Tensor")

    def exchange(x: Tensor, hcom: str) -> Tensor:
        ran.append(hcom)
        return x * 2

    library.impl("exchanged", exchange, "CompositeExplicitAutograd")
    library.impl("exchanged", lambda x, hcom: torch.empty_like(x), "Meta")

    def step(x: Tensor) -> Tensor:
        def part(x: Tensor) -> Tensor:
            torch.ops.dropped_twice.exchanged(x.detach(), "again")
            return x.sin() * 2

        result: Tensor = checkpoint(part, x, use_reentrant=False).sum()
        return result

    torch.compile(step, backend="air")(torch.ones(4, requires_grad=True)).backward()
    library._destroy()
    assert ran == ["again", "again"]
