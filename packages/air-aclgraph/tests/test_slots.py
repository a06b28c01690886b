"""Inputs: what is written, copied, bound, refused."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from aclgraph_backend import Backend, executable, traced
from air_aclgraph._memory import extent, overlaps_itself
from air_aclgraph._slots import Kind, classify
from air_aclgraph.errors import InputRefused
from air_graph import written_inputs

CPU = torch.device("cpu")


def written(function: object, *examples: Tensor) -> set[str]:
    return {str(n.target) for n in written_inputs(traced(function, *examples))}  # type: ignore[arg-type]  # any function


def test_a_write_through_a_chain_of_views_counts() -> None:
    def step(cache: Tensor, x: Tensor) -> Tensor:
        cache.view(-1)[2:4].view(2, 1).copy_(x)
        return cache + x

    assert written(step, torch.zeros(2, 2), torch.ones(2, 1)) == {"cache_1"}


def test_W25_in_place_operators_on_lists_count_element_by_element() -> None:
    def step(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        torch._foreach_add_([a, b], 1)
        return c + a

    assert written(step, torch.zeros(2), torch.zeros(2), torch.zeros(2)) == {"a_1", "b_1"}


def test_a_write_to_a_copy_is_not_a_write_to_the_input() -> None:
    assert written(lambda x: x.clone().add_(1), torch.zeros(2)) == set()


def test_W25_every_written_argument_of_an_operator_counts() -> None:
    def step(x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        out: Tensor = torch.ops.aten._native_batch_norm_legit(x, None, None, mean, var, True, 0.1, 1e-5)[0]
        return out

    assert written(step, torch.randn(3, 2), torch.zeros(2), torch.ones(2)) == {"mean_1", "var_1"}


def test_kinds_follow_what_an_input_is() -> None:
    def step(cache: Tensor, w: Tensor, x: Tensor) -> Tensor:
        cache.add_(1)
        return cache + w + x

    examples = [torch.zeros(2), torch.nn.Parameter(torch.ones(2)), torch.ones(2)]
    gm = traced(step, *[e.detach() for e in examples])
    assert [s.kind for s in classify(gm, examples, [], CPU)] == [Kind.MUTATED, Kind.STATIC, Kind.COPIED]
    bound = classify(gm, examples, [], CPU, clone_input=False)
    assert bound[2].kind is Kind.BOUND


def test_a_buffer_marked_static_is_static() -> None:
    marked = torch.ones(2)
    torch._dynamo.mark_static_address(marked)
    (slot,) = classify(traced(lambda x: x + 1, torch.ones(2)), [marked], [], CPU)
    assert slot.kind is Kind.STATIC


def test_the_number_of_examples_is_checked() -> None:
    with pytest.raises(InputRefused, match="1 inputs and 2 example inputs"):
        classify(traced(lambda x: x + 1, torch.ones(2)), [torch.ones(2)] * 2, [], CPU)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(4, 6)[:, ::2],
        lambda: torch.randn(4, 3).t(),
        lambda: torch.randn(3, 1).expand(3, 4),
        lambda: torch.randn(10).as_strided((3, 4), (2, 1)),
        lambda: torch.randn(0, 4),
        lambda: torch.tensor(3.0),
        lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        lambda: torch.randn(3, dtype=torch.complex64).conj(),
    ],
    ids=["gaps", "transposed", "expanded", "overlapping", "empty", "0-dim", "channels-last", "conjugate"],
)
def test_W06_the_strides_of_an_input_reach_the_graph(make: object, device: str) -> None:
    def place() -> Tensor:
        value: Tensor = make()  # type: ignore[operator]  # a factory
        if overlaps_itself(value):
            return value.to(device)
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device).copy_(value)

    example = place()
    run = executable(lambda x: (x * 2, x.sum()), example, device=device)
    for _ in range(3):
        value = place()
        twice, total = run(value)
        torch.testing.assert_close(twice, value * 2)
        torch.testing.assert_close(total, value.sum())
    kept = run._captured[()].inputs[0]
    assert kept.stride() == example.stride()


def test_extent_and_overlap() -> None:
    assert extent(torch.randn(3, 4)) == 12
    assert extent(torch.randn(4, 6)[:, ::2]) == 23
    assert extent(torch.randn(0, 3)) == 0
    assert overlaps_itself(torch.randn(3, 1).expand(3, 4))
    assert not overlaps_itself(torch.randn(3, 4).t())


def test_an_input_that_shares_memory_with_a_written_one_runs_uncaptured() -> None:
    def step(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        a.add_(1)
        return (b * 2,)

    run = executable(step, torch.zeros(4), torch.zeros(4))
    memory = torch.zeros(6)
    for _ in range(2):
        run(torch.zeros(4), torch.zeros(4))
        memory.zero_()
        (out,) = run(memory[:4], memory[2:])
        assert out.tolist() == [2.0, 2.0, 0.0, 0.0]
    assert sum(run.stats()["eager_calls"].values()) == 2


def test_W05_a_cpu_tensor_that_the_graph_moves_to_the_device_is_staged(accelerator: str) -> None:
    def step(x: Tensor, host: Tensor) -> tuple[Tensor, ...]:
        return (x + host.to(accelerator),)

    x = torch.ones(3, device=accelerator)
    run = executable(step, x, torch.zeros(3), device=accelerator)
    for number in range(4):
        host = torch.full((3,), float(number))
        assert run(x, host)[0].tolist() == [1.0 + number] * 3
        del host


def test_a_cpu_number_is_part_of_the_key(accelerator: str) -> None:
    x = torch.ones(3, device=accelerator)
    run = executable(lambda x, s: (x * s,), x, torch.tensor(2.0), device=accelerator)
    for value in (2.0, 3.0, 2.0, 3.0):
        assert run(x, torch.tensor(value))[0].tolist() == [value] * 3
    assert run.stats()["keys"] == 2


def test_a_cpu_number_that_the_graph_casts_on_the_host_is_part_of_the_key(accelerator: str) -> None:
    x = torch.ones(3, device=accelerator)
    run = executable(lambda x, s: (x * s.long(), s.long()), x, torch.tensor(2.0), device=accelerator)
    for value in (2.5, 3.5, 2.5):
        scaled, number = run(x, torch.tensor(value))
        assert scaled.tolist() == [int(value)] * 3
        assert number.device.type == "cpu"
    assert run.stats()["keys"] == 2


def test_W31_a_layout_that_changes_after_the_first_call_is_noticed(device: str) -> None:
    def step(cache: Tensor, x: Tensor) -> Tensor:
        cache.add_(x)
        return cache * 2

    compiled = torch.compile(step, backend=Backend(device), dynamic=True)
    memory = torch.zeros(64, device=device)
    with torch.no_grad():
        for strides in ((4, 1), (8, 1), (1, 4), (8, 1), (5, 1), (4, 1)):
            cache = memory.as_strided((4, 4), strides)
            x = torch.randn(4, 4, device=device)
            expected = cache + x
            torch.testing.assert_close(compiled(cache, x), expected * 2)
            torch.testing.assert_close(cache, expected)


def test_W31_a_copied_input_may_come_with_other_strides_in_a_later_call(device: str) -> None:
    run = executable(lambda x: (x * 2,), torch.ones(3, 4, device=device), device=device)
    for x in (
        torch.randn(3, 4),
        torch.randn(4, 3).t(),
        torch.randn(3, 8)[:, ::2],
        torch.randn(3, 1).expand(3, 4),
    ):
        torch.testing.assert_close(run(x.to(device))[0].cpu(), x * 2)


class Branches(torch.nn.Module):
    """Parameters and buffers among the inputs, and activations of every kind between the halves."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = (
            torch.nn.Linear(4, 8),
            torch.nn.BatchNorm1d(8),
            torch.nn.Linear(8, 2),
        )

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.last(self.norm(self.first(x)).tanh() * self.first(x).relu())
        return hidden


@pytest.mark.parametrize("frozen", [False, True])
def test_N25_a_training_step_with_frozen_parameters_has_the_gradients_of_eager(
    frozen: bool, device: str
) -> None:
    torch.manual_seed(0)
    model, twin = Branches().to(device), Branches().to(device)
    twin.load_state_dict(model.state_dict())
    backend = Backend(device, experimental_config__frozen_parameter=frozen)
    compiled = torch.compile(model, backend=backend)
    for _ in range(6):
        x = torch.randn(5, 4, device=device)
        other = x.clone().requires_grad_()
        x.requires_grad_()
        compiled(x).square().sum().backward()
        twin(other).square().sum().backward()
        for mine, its in zip((x, *model.parameters()), (other, *twin.parameters()), strict=True):
            torch.testing.assert_close(mine.grad, its.grad, rtol=1e-4, atol=1e-5)
            mine.grad = its.grad = None
        kept = torch.empty(4096, device=device)  # activations of the next step lie elsewhere
    assert kept is not None
    assert [run.stats()["captures"] for run in backend.executables] == [1, 1], (
        "nothing moves but what is copied"
    )


def test_N25_of_a_backward_half_only_saved_parameters_and_buffers_are_static(device: str) -> None:
    model = Branches().to(device)
    backend = Backend(device)
    torch.compile(model, backend=backend)(torch.randn(5, 4, device=device)).sum().backward()
    forward, backward = backend.executables
    static = {slot.name for slot in backward.slots if slot.kind is Kind.STATIC}
    known = {slot.name for slot in forward.slots if slot.kind is Kind.STATIC}
    assert static, "weights are read again"
    assert static <= known
    assert len(static) < len(backward.slots) - 1
