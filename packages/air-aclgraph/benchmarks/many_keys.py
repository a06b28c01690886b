"""What a call costs when its graph holds many keys: one call of each key in turn, from 1 key to 128.

AIR_SIM_NOOP=1 TASK_QUEUE_ENABLE=0 air-sim run python benchmarks/many_keys.py --json results.json
"""

from __future__ import annotations

import argparse
import logging

import torch
from _measure import NOTE, Row, device_of, interleave, numbers, show, table, write
from hot_path import model, ours
from keys_and_pins import Turn

import air_config
from air_aclgraph import Executable


def room_for(keys: int, device: str) -> air_config.Settings:
    """Settings under which so many captures are kept."""
    config = air_config.CompilerConfig()
    config.mode = "reduce-overhead"
    config.debug.aclgraph.static_capture_size_limit = keys
    return air_config.resolve(config, air_config.Context(device=device))


def row_of(count: int, parameters: int, device: str) -> Row:
    """Calls of a compiled model, each of the next of its keys."""
    executables: list[Executable] = []
    backend = ours(executables, room_for(count, device))
    compiled = torch.compile(model(parameters, 4).to(device), backend=backend, dynamic=True)
    inputs = [torch.randn(rows, 16, device=device) for rows in range(4, 4 + count)]
    for x in inputs * 2:
        compiled(x)
    (run,) = executables
    if len(run.keys()) != count:
        raise RuntimeError(f"{len(run.keys())} keys are kept of {count}")
    return Row(f"{count} keys", Turn(compiled, inputs).next)


def main() -> None:
    """Times all counts in one process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--device", default="npu")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--parameters", type=int, default=32)
    parser.add_argument("--keys", type=int, nargs="+", default=[1, 8, 32, 128])
    arguments = parser.parse_args()
    logging.disable(logging.INFO)
    with torch.no_grad():
        rows = [row_of(count, arguments.parameters, arguments.device) for count in arguments.keys]
        interleave(rows, rounds=arguments.rounds, burst=1, device=device_of(arguments.device))
    base = rows[0].least_us, rows[0].median_us
    show(table("many keys", rows, base, NOTE if arguments.device == "npu" else ""))
    write(arguments.json, {"many keys": numbers(rows)})


if __name__ == "__main__":
    main()
