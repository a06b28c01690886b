"""Programs on native streams, captured by the real torch_npu, give what one stream gives, whatever is delayed."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import InternalTorchDynamoError

from air_aclgraph import runtime_for
from air_streams import StreamRaceWarning
from delayed_device import MARKS, air_sim, npu
from native_programs import EVENTS, STREAMS, Part, Writer, in_three, in_turn, on_cpu, on_npu

pytestmark = MARKS

CALLS = 4
SIZES = (4, 1_000, 100_000)
#: What torch refuses: to trace an event that is recorded on a stream after a write to an input there, and a write to a
#: result of a compiled function that its backward half needs as well.
REFUSED = ("An event was recorded on a stream where a graph input", "modified by an inplace operation")


def some_streams() -> Sequence[torch.Stream]:
    """The first streams of torch's pool, and the one that captures: a user who makes many gets that one as well."""
    compiled = torch.compile(lambda x: x + 1, backend="air", options={"mode": "reduce-overhead"})
    compiled(torch.ones(2).to("npu"))
    runtime: Any = runtime_for(torch.device("npu", npu.current_device()))
    captures = runtime._capture_stream
    pool = [npu.Stream() for _ in range(32)]
    assert captures in pool, "torch has another pool than this test knows"
    return [captures, *[stream for stream in pool if stream != captures][:4]]


def values(inputs: int, size: int, call: int, trained: bool) -> list[Tensor]:
    numbers = [torch.arange(size, dtype=torch.int32) % 7 + 1 + number + call for number in range(inputs)]
    return [(value % 5).float().requires_grad_() for value in numbers] if trained else numbers


def results(given: Sequence[Tensor], returned: Any) -> list[Tensor]:
    """What a caller sees: results and written inputs, or the loss and the gradients."""
    if isinstance(returned, Tensor):
        returned.backward()
        npu.synchronize()  # eager code alone now and then reads a gradient that another stream still adds to
        none = torch.zeros(
            (), device=returned.device
        )  # what a compiled function gives where eager code gives no gradient
        return [returned.detach(), *(none if value.grad is None else value.grad for value in given)]
    return [*returned, *given]


def same(found: Tensor, expected: Tensor) -> bool:
    """Whether the numbers are equal, up to the order in which gradients are added."""
    expected = expected.expand_as(found) if expected.dim() == 0 else expected
    return torch.allclose(
        found, expected, rtol=1e-5 if found.is_floating_point() else 0, atol=0, equal_nan=True
    )


def difference_of(seed: int, kind: str, streams: Sequence[torch.Stream]) -> str | None:
    """Draws a program, streams and delays; says which call of it gave something else, or warned of a race."""
    source = random.Random(seed)
    inputs, size = source.randint(2, 3), source.choice(SIZES)
    waits, trained = kind != "auto", kind == "training"
    writer = Writer(source, inputs, size, waits=waits, trained=trained)
    text = writer.program(source.randint(3, 9))
    parts = in_three(writer) if kind == "a part" else [Part(text, writer.inputs, ())]
    events = [npu.Event() for _ in range(EVENTS)]
    places = source.sample(streams, STREAMS)
    delays = {"delay_us": source.choice((0, 200, 1_000)), "launch_delay_us": source.choice((0, 50, 300))}
    air_sim.change(seed=seed + 1, **delays)
    torch._dynamo.reset()
    options: Any = {"mode": "reduce-overhead", "sync": "check" if waits else "auto"}
    programs = [on_npu(part.text, places, events) for part in parts]
    middle = len(parts) // 2
    programs[middle] = torch.compile(
        programs[middle], backend="air", options=options, dynamic=False, fullgraph=True
    )
    compiled = in_turn(parts, programs)
    for call in range(CALLS):
        host = values(inputs, size, call, trained)
        try:
            expected = results(host, on_cpu(text)(*host))
        except RuntimeError:  # a write to what the gradient needs
            return None
        given = [
            value.detach().to("npu").requires_grad_(trained) for value in values(inputs, size, call, trained)
        ]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", StreamRaceWarning)
                found = [value.cpu() for value in results(given, compiled(*given))]
        except (InternalTorchDynamoError, RuntimeError) as error:
            if any(text in str(error) for text in REFUSED):
                return None
            raise
        if not all(map(same, found, expected)):
            return f"program {seed}, call {call}: {found}, expected {expected}\n{text}\n{parts}"
    return None


@pytest.mark.parametrize("programs", [range(8), pytest.param(range(8, 200), marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["waits", "auto", "training", "a part"])
def test_A42_N06_random_programs_give_what_one_stream_gives(kind: str, programs: range) -> None:
    streams = some_streams()
    found = [difference_of(seed, kind, streams) for seed in programs]
    assert [text for text in found if text] == []


def test_A42_a_training_step_that_writes_an_argument_on_a_side_stream_is_right_and_accuses_nobody() -> None:
    """AOTAutograd copies the argument first: the side stream leaves the entry stream after that copy."""
    side = npu.Stream()

    def on_one_stream(x: Tensor, written: Tensor) -> tuple[Tensor, Tensor]:
        before = written - 2
        written.sub_(x)
        return before * written, written

    def step(x: Tensor, written: Tensor) -> tuple[Tensor, Tensor]:
        with npu.stream(side):
            before = written - 2
            written.sub_(x)
        npu.current_stream().wait_stream(side)
        return before * written, written

    compiled = torch.compile(step, backend="air", options={"mode": "reduce-overhead"}, fullgraph=True)
    air_sim.change(delay_us=2_000, seed=3)
    for call in range(4):
        losses, gradients = [], []
        for function, device in ((on_one_stream, "cpu"), (compiled, "npu")):
            x = (torch.arange(1_000.0) % 7 + call).to(device).requires_grad_()
            with warnings.catch_warnings():
                warnings.simplefilter("error", StreamRaceWarning)
                made, written = function(x, x * 3)
            loss = (made + written).sum()
            loss.backward()
            npu.synchronize()
            assert x.grad is not None
            losses.append(loss.detach().cpu())
            gradients.append(x.grad.cpu())
        torch.testing.assert_close(losses[1], losses[0])
        torch.testing.assert_close(gradients[1], gradients[0])


LENT = """def program(x):
    entry = torch.npu.current_stream()
    s1.wait_stream(entry)
    with torch.npu.stream(s1):
        lent = x + 1
    s2.wait_stream(s1)
    with torch.npu.stream(s2):
        used = lent * 2
    with torch.npu.stream({heir}):
        heir = x * 3
    entry.wait_stream(s2)
    entry.wait_stream(s1)
    return used, heir
"""


@pytest.mark.parametrize("heir", ["s1", "entry"])
def test_A42_a_variable_lives_until_the_function_returns_whoever_could_have_its_memory(heir: str) -> None:
    """The graph drops `lent` after its last use: on its own stream, or on the capture's, which is that stream here."""
    captures, other, *_ = some_streams()
    program = on_npu(LENT.format(heir=heir), [captures, other, other], ())
    compiled = torch.compile(program, backend="air", options={"mode": "reduce-overhead"}, fullgraph=True)
    air_sim.change(delay_us=2_000, seed=5)
    for call in range(8):
        x = torch.arange(1_000) + call
        used, made = compiled(x.to("npu"))
        assert torch.equal(used.cpu(), (x + 1) * 2)
        assert torch.equal(made.cpu(), x * 3)
