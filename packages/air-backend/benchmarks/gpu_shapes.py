"""Nine batch sizes of one model on a CUDA device: the memory that their captures keep, and the seconds until all run.

    python gpu_shapes.py --json results.json

Each way in a process of its own, each size compiled for itself (`dynamic=False`) and called five times.
"""

from __future__ import annotations

import gc
import json
import logging
import subprocess
import sys
import time
from typing import Any

import torch
from _gpu import COMPILED, begin, compiled, show, write
from gpu_models import llama, step_of, tokens

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24)
WAYS = tuple(way for way in COMPILED if way not in ("max-autotune", "AIR, products side by side"))


def kept(way: str, layers: int) -> dict[str, float]:
    """The bytes that stay reserved, and the seconds, of one way in this process."""
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = llama(layers).to(torch.bfloat16).eval().requires_grad_(False)
    step = step_of(model, "input_ids=x, use_cache=False, logits_to_keep=1")
    with torch.no_grad():
        for size in reversed(SIZES):
            step(tokens(size, 128))  # the libraries' own memory is no capture's
        torch.cuda.empty_cache()
        before = torch.cuda.memory_reserved()
        start = time.perf_counter()
        row = compiled(way, step)
        for size in reversed(SIZES):
            x = tokens(size, 128)
            for _ in range(5):
                row.step(x)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
    del x
    gc.collect()
    torch.cuda.empty_cache()
    return {"bytes": float(torch.cuda.memory_reserved() - before), "seconds": seconds}


def main() -> None:
    """Starts a process for each way."""
    asked = begin(__doc__, layers=4, way="")
    logging.disable(logging.INFO)
    if asked.way:
        show("FOUND" + json.dumps(kept(asked.way, asked.layers)))
        return
    found: dict[str, Any] = {}
    for way in WAYS:
        if way in asked.without:
            continue
        command = [sys.executable, __file__, "--way", way, "--layers", str(asked.layers)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found[way] = json.loads(done.stdout.partition("FOUND")[2])
    title = f"nine sizes, {asked.layers} layers, {torch.cuda.get_device_name()}, torch {torch.__version__}"
    lines = [
        f"{way:<28}{row['bytes'] / 2**20:>10.1f} MiB{row['seconds']:>10.1f} s" for way, row in found.items()
    ]
    show("\n".join([title, "", *lines, ""]))
    write(asked.json, {"nine sizes": found})


if __name__ == "__main__":
    main()
