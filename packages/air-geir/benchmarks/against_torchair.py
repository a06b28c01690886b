# a benchmark prints its result
"""Host cost of max-autotune beside TorchAir's: conversion, memory, and each call.

    air-sim run python packages/air-geir/benchmarks/against_torchair.py [--layers 32] [--calls 300]

Both compilers get the same FX graph in the same process, and run it on the same engine. On air-sim every number is
host time above the ACL boundary and nothing else: it says nothing about the speed of an NPU.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch_npu  # noqa: F401  # registers the device
from functorch.compile import make_boxed_func  # type: ignore[import-untyped]  # no annotations
from torch._dynamo.backends.common import aot_autograd
from torchair.npu_fx_compiler import get_compiler  # type: ignore[import-not-found]  # part of torch_npu

import air_geir
import torchair  # type: ignore[import-not-found]  # part of torch_npu
from air_config import CompilerConfig, Context, resolve
from air_geir import file

transformers: Any = importlib.import_module("transformers")
Compiler = Callable[[torch.fx.GraphModule, Sequence[Any]], Any]


def llama(layers: int) -> Any:
    """A small Llama with many layers: conversion depends on the number of operators, not on their size."""
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=64,
        attn_implementation="eager",
    )
    return transformers.LlamaForCausalLM(config).eval().npu()


def inside(model: torch.nn.Module, work: Compiler, **inputs: Any) -> list[Any]:
    """Do work with the AOT graph of the model where a compiler would; gives the arguments of the call."""
    seen: list[Any] = []

    def compiler(gm: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        work(gm, examples)

        def run(*args: Any) -> Any:
            seen.extend(args)
            return gm(*args)

        return make_boxed_func(run)

    torch._dynamo.reset()
    backend = aot_autograd(
        fw_compiler=compiler, inference_compiler=compiler, keep_inference_input_mutations=True
    )
    with torch.no_grad():
        torch.compile(model, backend=backend, dynamic=False, fullgraph=True)(**inputs)
    return seen


def convert_ours(gm: torch.fx.GraphModule, examples: Sequence[Any]) -> tuple[int, bytes]:
    """Lower, optimise, verify, encode."""
    program = air_geir.lower_program(gm, examples)
    air_geir.ge_passes.optimize(program)
    air_geir.verify.verify(program.graph)
    return len(program.graph), file.to_bytes(program.graph)


def convert_theirs(gm: torch.fx.GraphModule, examples: Sequence[Any]) -> tuple[int, bytes]:
    """TorchAir's converter and passes, up to the bytes."""
    compiled = get_compiler(torchair.CompilerConfig())(gm, examples)
    graph = compiled.runner.graph
    return len(graph.op), graph.SerializeToString()


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of this thread, and the result."""
    gc.collect()
    start = time.thread_time()
    result = work()
    return time.thread_time() - start, result


def peak(work: Callable[[], Any]) -> int:
    """Bytes of Python memory at the highest."""
    gc.collect()
    tracemalloc.start()
    work()
    _, top = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return top


def per_call(run: Callable[..., Any], args: Sequence[Any], calls: int) -> list[float]:
    """Microseconds of each call, the device drained in between."""
    times = []
    for _ in range(calls):
        torch.npu.synchronize()  # type: ignore[attr-defined]  # torch_npu adds it
        start = time.perf_counter()
        run(*args)
        times.append((time.perf_counter() - start) * 1e6)
    return times


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.manual_seed(0)
    ids = torch.randint(0, 64, (1, 8)).npu()  # type: ignore[attr-defined]  # torch_npu adds it
    model = llama(options.layers)
    compiled: list[Any] = []
    found: dict[str, dict[str, float]] = {}

    def work(gm: torch.fx.GraphModule, examples: Sequence[Any]) -> None:
        print(f"Llama of {options.layers} layers: {len(gm.graph.nodes)} FX nodes, {len(examples)} arguments")
        found.update(conversion(gm, examples, options.rounds))
        settings = resolve(CompilerConfig(), Context(device="npu"))
        compiled.append(air_geir.compile_graph(gm, examples, settings=settings))
        compiled.append(get_compiler(torchair.CompilerConfig())(gm, examples))

    args = inside(model, work, input_ids=ids, use_cache=False)
    with torch.no_grad():
        found.update(calls(compiled[0], compiled[1], args, options.calls))
    if options.json:
        options.json.write_text(json.dumps(found) + "\n")


def conversion(gm: torch.fx.GraphModule, examples: Sequence[Any], rounds: int) -> dict[str, dict[str, float]]:
    """Interleaved rounds of both converters."""
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        seconds, (nodes, data) = timed(lambda: convert_ours(gm, examples))
        ours.append(seconds)
        seconds, (their_nodes, their_data) = timed(lambda: convert_theirs(gm, examples))
        theirs.append(seconds)
    print(f"nodes   AIR {nodes} ({len(data)} bytes)   TorchAir {their_nodes} ({len(their_data)} bytes)")
    a, b = statistics.median(ours), statistics.median(theirs)
    print(f"conversion   AIR {a:.3f} s   TorchAir {b:.3f} s   ratio {a / b:.3f}")
    a_top, b_top = peak(lambda: convert_ours(gm, examples)), peak(lambda: convert_theirs(gm, examples))
    ratio = f"ratio {a_top / b_top:.3f}"
    print(f"peak Python memory   AIR {a_top / 2**20:.1f} MiB   TorchAir {b_top / 2**20:.1f} MiB   {ratio}")
    return {
        "conversion, s": {"AIR": a, "TorchAir": b},
        "peak Python memory, bytes": {"AIR": a_top, "TorchAir": b_top},
    }


def calls(ours: Any, theirs: Any, args: Sequence[Any], number: int) -> dict[str, dict[str, float]]:
    """Interleaved calls of both executables; the bare run of the engine is the floor of both."""
    for run in (ours, theirs):
        run(*args)
    compiled = ours._compiled._compiled  # inside what lets callers take turns
    inputs = tuple(args[b.arg] for b in ours.program.inputs)
    bare = compiled._base.run
    floor, a, b = [], [], []
    for _ in range(3):
        floor += per_call(lambda *_: bare((inputs, (), None)), args, number // 3)
        a += per_call(ours, args, number // 3)
        b += per_call(theirs, args, number // 3)
    base, x, y = map(statistics.median, (floor, a, b))
    print(f"call   engine alone {base:.1f} us   AIR {x:.1f} us   TorchAir {y:.1f} us")
    print(
        f"above the engine   AIR {x - base:.1f} us   TorchAir {y - base:.1f} us   ratio {(x - base) / (y - base):.3f}"
    )
    return {"call, us": {"engine alone": base, "AIR": x, "TorchAir": y}}


if __name__ == "__main__":
    main()
