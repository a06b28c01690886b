"""What the rest of the hot path costs: key switches, mutated inputs, host parameters, pinned calls.

AIR_SIM_NOOP=1 TASK_QUEUE_ENABLE=0 air-sim run python benchmarks/keys_updates_pins.py --json results.json
"""

from __future__ import annotations

import argparse
import itertools
import logging
from collections.abc import Callable
from typing import Any

import torch
from _measure import NOTE, Row, interleave, show, table, write
from hot_path import model, ours
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

import air_aclgraph
from air_aclgraph import Executable


def keys(parameters: int, device: str) -> list[Row]:
    """The same executable with one key, and with five visited in turn."""
    module = model(parameters, 32).to(device)
    executables: list[Executable] = []
    compiled = torch.compile(module, backend=ours(executables), dynamic=True)
    inputs = [torch.randn(rows, 16, device=device) for rows in (4, 5, 6, 7, 8)]
    with torch.no_grad():
        for x in inputs * 3:
            compiled(x)
    (run,) = executables
    lists = [_arguments(run, key, x) for key, x in zip(run.keys(), inputs, strict=True)]
    turn = itertools.cycle(lists)
    return [
        Row(f"executable, {parameters} parameters, one key", lambda: run.boxed(list(lists[0]))),
        Row(f"executable, {parameters} parameters, 5 keys in turn", lambda: run.boxed(list(next(turn)))),
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

    def unguarded() -> None:
        with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
            compiled(x)

    return [
        Row("one input copy + bare replay", bare),
        Row("pinned call", lambda: pinned(x)),
        Row("compiled call", lambda: compiled(x)),
        Row("compiled call, skip_guard_eval_unsafe", unguarded),
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
    settle = torch.get_device_module(arguments.device).synchronize
    groups: dict[str, Callable[[], list[Row]]] = {
        "mutated inputs": lambda: caches(arguments.device),
        "pinned": lambda: pins(288, arguments.device),
        "keys": lambda: keys(arguments.parameters, arguments.device),
    }
    for title, make in groups.items():
        rows = make()
        with torch.no_grad():
            interleave(rows, rounds=arguments.rounds, settle=settle)
        show(table(title, rows, rows[0].median_us, NOTE if arguments.device == "npu" else ""))
        write(arguments.json, {title: {row.name: row.median_us for row in rows}})


if __name__ == "__main__":
    main()
