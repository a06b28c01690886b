"""How long models of the zoo take to compile: both modes beside `aot_eager` and Inductor, on the CPU.

    python zoo_compile_time.py --models 12 --json results.json

Each model is compiled and called once in each way, the ways one after the other in one process; Dynamo's part is in
all of them. The caches of Inductor are off, so that it compiles. Processor time
counts, that of the C++ compiler included.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from zoo import page, results
from zoo.architectures import Architecture, Shard, listed, make
from zoo.judging import MODES, TORCH, backend_of
from zoo.made import Made
from zoo.unloaded import declare_what_torchvision_lacks

ROOT = Path(__file__).resolve().parents[3]
INDUCTOR = "inductor"
WAYS = (TORCH, INDUCTOR, *MODES)


def wanted(count: int) -> list[Architecture]:
    """Models of transformers whose kept row is good, spread over all of them."""
    good = {row.key for row in results.read(results.file_of(ROOT, "cpu")) if page.verdict(row) == "good"}
    every = [one for one in listed(["transformers"], Shard(0, 1)) if one in good]
    return every[:: max(1, len(every) // count)][:count]


def backend(way: str) -> Callable[..., Any]:
    found: Callable[..., Any] = (
        torch._dynamo.lookup_backend(way) if way == INDUCTOR else backend_of(way)  # AIR's, and aot_eager
    )
    return found


def processor() -> float:
    """Seconds of this process and of the processes that it waited for."""
    return sum(os.times()[:4])


def seconds(made: Made, way: str) -> float:
    """Processor time from `torch.compile` to the end of the first call, compilers in C++ among it."""
    torch._dynamo.reset()
    gc.collect()
    model, inputs = copy.deepcopy(made.model), made.drawn(1)
    begun = processor()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.compile(model, backend=backend(way), dynamic=False)(**inputs)
    return processor() - begun


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=int, default=12)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    declare_what_torchvision_lacks()
    torch._inductor.config.force_disable_caches = True
    torch._inductor.config.compile_threads = 1
    sums = dict.fromkeys(WAYS, 0.0)
    chosen = wanted(asked.models)
    warm = make(chosen[0])
    for way in WAYS:  # imports and what is made once in a process
        seconds(warm, way)
    for architecture in chosen:
        made = make(architecture)
        for way in WAYS:
            taken = seconds(made, way)
            sums[way] += taken
            print(f"{architecture.name:<32}{way:<20}{taken:8.2f} s", flush=True)
    for way, total in sums.items():
        print(f"{len(chosen)} models  {way:<20}{total:8.2f} s  {total / sums[TORCH]:6.2f} of {TORCH}")
    if asked.json:
        asked.json.write_text(json.dumps({"compile time of the zoo, s": sums, "models": len(chosen)}) + "\n")


if __name__ == "__main__":
    main()
