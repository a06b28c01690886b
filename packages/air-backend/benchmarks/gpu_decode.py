"""A decode step on a CUDA device: AIR beside torch's own graph backends and a bare replay.

    python gpu_decode.py --json results.json
    python gpu_decode.py --batches 1 8 --layers 4          a smaller model

For each batch size: host time of a call and latency (`_gpu.py`), interleaved in one process, each output compared with
eager first.  The rows:

    eager                      the module itself
    bare replay                `CUDAGraph.replay()` of one capture of it, and nothing else
    copies + bare replay       the same after copying token and position: the least a capture can cost
    AIR, kernels of ATen       torch.compile(backend="air", options={"mode": "reduce-overhead"})
    AIR, kernels of Inductor   the same with air.kernels = "inductor"
    AIR, products side by side  that with air.products_side_by_side: query, key and value at the same time
    Inductor                   torch.compile()
    max-autotune               torch.compile(mode="max-autotune")
    reduce-overhead            torch.compile(mode="reduce-overhead")
    cudagraphs                 torch.compile(backend="cudagraphs")
"""

from __future__ import annotations

import copy
import importlib.util
import itertools
import logging
import sys
from pathlib import Path
from typing import Final

import torch
from _gpu import COMPILED, Timed, bare, begin, check, compiled, interleave, show, table, write
from llama_shaped import Shape
from torch import Tensor, nn

_NUMBERS: Final = itertools.count()


def decoder(
    shape: Shape, batch: int, weights: dict[str, Tensor] | None, device: str, dtype: torch.dtype
) -> nn.Module:
    """A decoder with code objects and caches of its own; `weights` are shared, not copied.

    Dynamo looks its cache up by code: rows that shared it would pay for each other's guards.
    """
    name = f"llama_shaped_{next(_NUMBERS)}"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("llama_shaped.py"))
    if spec is None or spec.loader is None:
        raise RuntimeError("llama_shaped.py is not beside this script")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    with torch.device(device):
        made: nn.Module = module.Decoder(shape, batch)
    made = made.to(dtype).eval().requires_grad_(False)
    if weights is not None:
        made.load_state_dict(weights, assign=True)
    return made


def rows_of(shape: Shape, batch: int, token: Tensor, position: Tensor, without: list[str]) -> list[Timed]:
    """Every way to run the step, compiled and captured."""
    device, dtype = "cuda", torch.bfloat16
    eager = decoder(shape, batch, None, device, dtype)
    weights = eager.state_dict()

    def fresh() -> nn.Module:
        return decoder(shape, batch, weights, device, dtype)

    rows = [Timed("eager", eager), *bare(fresh(), token, position)]
    rows += [compiled(name, fresh()) for name in COMPILED if name not in without]
    for row in rows:
        for _ in range(5):
            row.step(token, position)
    return rows


def main() -> None:
    """Times every batch size."""
    asked = begin(__doc__, batches=[1, 2, 4, 8, 16, 32, 64], layers=Shape.layers, rounds=20)
    logging.disable(logging.INFO)
    shape = Shape(layers=asked.layers)
    name = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    for batch in asked.batches:
        inputs = torch.full((batch, 1), 7, device="cuda"), torch.tensor([9], device="cuda")
        with torch.no_grad():
            rows = rows_of(shape, batch, *inputs, asked.without)
            check(rows, inputs, copy.deepcopy(rows[0].step).double()(*inputs))
            interleave(rows, inputs, asked.rounds)
        title = f"decode, {shape.layers} layers, batch {batch}, {name}"
        show(table(title, rows))
        write(asked.json, {title: {row.name: row.as_dict() for row in rows}})
        del rows
        torch._dynamo.reset()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
