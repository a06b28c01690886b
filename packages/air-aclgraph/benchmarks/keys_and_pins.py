"""What the rest of the hot path costs: key switches, mutated inputs, pinned calls.

AIR_SIM_NOOP=1 TASK_QUEUE_ENABLE=0 air-sim run python benchmarks/keys_and_pins.py --json results.json
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from _measure import NOTE, Row, device_of, interleave, numbers, show, table, write
from hot_path import model, ours
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

import air_aclgraph
import air_config
from air_aclgraph import Executable


class Turn:
    """Calls one function with several arguments: again with the last ones, or with the next."""

    def __init__(self, call: Callable[[Any], Any], arguments: Sequence[Any]) -> None:
        self._call = call
        self._arguments = arguments
        self._at = 0

    def again(self) -> Any:
        return self._call(self._arguments[self._at])

    def next(self) -> Any:
        self._at = (self._at + 1) % len(self._arguments)
        return self._call(self._arguments[self._at])


def keys(parameters: int, device: str, count: int = 5) -> list[Row]:
    """Keys of one executable: a call of the key of the last call, and a call of the next key, in turn."""
    module = model(parameters, 32).to(device)
    executables: list[Executable] = []
    compiled = torch.compile(module, backend=ours(executables), dynamic=True)
    inputs = [torch.randn(rows, 16, device=device) for rows in range(4, 4 + count)]
    with torch.no_grad():
        for x in inputs * 3:
            compiled(x)
    (run,) = executables
    alone = Turn(
        run.boxed, [tuple(_arguments(run, key, x)) for key, x in zip(run.keys(), inputs, strict=True)]
    )
    whole = Turn(compiled, inputs)
    return [
        Row(f"executable, {parameters} parameters, the same key", alone.again),
        Row(f"executable, {parameters} parameters, another key", alone.next),
        Row(f"compiled, {parameters} parameters, the same key", whole.again),
        Row(f"compiled, {parameters} parameters, another key", whole.next),
    ]


def _arguments(run: Executable, key: Any, x: Tensor) -> list[Any]:
    """The arguments of a key as its capture saw them, with the caller's input in place of the copy."""
    return [
        x if slot.kind.value == "copied" else value
        for slot, value in zip(run.slots, run.inputs_of(key), strict=True)
    ]


def caches(device: str) -> list[Row]:
    """Three caches written in place, against a graph that writes none."""

    def step(a: Tensor, b: Tensor, c: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        for cache in (a, b, c):
            cache[1:2].copy_(x)
        return (a + b + c,)

    def read(a: Tensor, b: Tensor, c: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        return (a + b + c + x,)

    held = [torch.zeros(4, 16, device=device) for _ in range(3)]
    x = torch.randn(1, 16, device=device)
    rows = []
    for name, function, static in (("3 mutated inputs", step, []), ("3 static inputs", read, [0, 1, 2])):
        gm = make_fx(function, tracing_mode="fake")(*held, x)
        run = air_aclgraph.compile_graph(gm, [*held, x], static_inputs=static)
        rows.append(Row(f"executable, {name}", _bound(run, *held, x)))
    return rows


def of_requests(device: str, count: int = 48) -> list[Row]:
    """Caches in other memory than those of the capture: carried through its memory, or taking it over."""

    def step(*given: Tensor) -> tuple[Tensor, ...]:
        for cache in given[:-1]:
            cache.add_(given[-1])
        return (given[0].sum(),)

    def made() -> list[Tensor]:
        return [torch.zeros(8, 64, device=device) for _ in range(count)]

    x = torch.ones(8, 64, device=device)
    rows = []
    for name, adopt, requests in (("carried", False, 2), ("adopted", True, 1)):
        config = air_config.CompilerConfig.from_options(
            {"mode": "reduce-overhead", "air.adopt_inputs": adopt}
        )
        settings = air_config.resolve(config, air_config.Context(device=device))
        first = made()
        run = air_aclgraph.compile_graph(
            make_fx(step, tracing_mode="fake")(*first, x), [*first, x], settings=settings
        )
        run(*first, x)
        del first
        several = [made() for _ in range(requests)]  # in turn: one that stays would be captured where it is
        turn = Turn(lambda caches, run=run: run(*caches, x), several)
        for _ in range(2 * requests):
            turn.next()
        rows.append(Row(f"executable, {count} caches of a request, {name}", turn.next))
    return rows


def _bound(run: Executable, *args: Any) -> Callable[[], Any]:
    run(*args)
    return lambda: run(*args)


def pins(parameters: int, device: str) -> list[Row]:
    """A pinned call against one input copy and a bare replay, and a compiled call without guards."""
    module = model(parameters, 32).to(device)
    executables: list[Executable] = []
    compiled = torch.compile(module, backend=ours(executables), dynamic=False)
    x = torch.randn(4, 16, device=device)
    with torch.no_grad():
        for _ in range(3):
            compiled(x)
    (run,) = executables
    (key,) = run.keys()
    args = _arguments(run, key, x)
    pinned = run.pin(*args)
    place = next(i for i, slot in enumerate(run.slots) if slot.kind.value == "copied")
    target, replay = run.inputs_of(key)[place], run.recording_of(key).replay

    def bare() -> None:
        target.copy_(x, True)
        replay()

    def unguarded() -> AbstractContextManager[Any]:
        stance: AbstractContextManager[Any] = torch.compiler.set_stance(skip_guard_eval_unsafe=True)
        return stance

    return [
        Row("one input copy + bare replay", bare),
        Row("pinned call", lambda: pinned(x)),
        Row("compiled call", lambda: compiled(x)),
        Row("compiled call, skip_guard_eval_unsafe", lambda: compiled(x), unguarded),
    ]


def main() -> None:
    """Measures every group and prints its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--device", default="npu")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--parameters", type=int, default=1000)
    arguments = parser.parse_args()
    logging.disable(logging.INFO)
    groups: dict[str, Callable[[], list[Row]]] = {
        "mutated inputs": lambda: caches(arguments.device),
        "caches of requests": lambda: of_requests(arguments.device),
        "pinned": lambda: pins(288, arguments.device),
        "keys": lambda: keys(arguments.parameters, arguments.device),
    }
    for title, make in groups.items():
        rows = make()
        rounds, burst = (10 * arguments.rounds, 1) if title == "keys" else (arguments.rounds, 10)
        with torch.no_grad():
            interleave(rows, rounds=rounds, burst=burst, device=device_of(arguments.device))
        base = rows[0].least_us, rows[0].median_us
        show(table(title, rows, base, f"base: the first row.  {NOTE if arguments.device == 'npu' else ''}"))
        write(arguments.json, {title: numbers(rows)})


if __name__ == "__main__":
    main()
