"""How long the first call of a process takes: traced, found in torch's cache, found in a file of `cache_compile`.

Each measurement is a process of its own, and the ways take turns, so that a loaded machine slows all of them. Processor
time counts; imports and the making of the model do not. The ratios are to the traced call of the same round. The
tensors are on the CPU: this is the time of the host.

    python first_call.py                 4 layers, 3 rounds
    python first_call.py --layers 16
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

WAYS = ("traced", "torch's cache", "cache_compile")


def first_call(way: str, mode: str, layers: int, dynamic: bool, folder: str) -> float:
    """Seconds of the first call in this process."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    import air_backend

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = {"hidden_size": 64, "intermediate_size": 128, "vocab_size": 128}
            heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
            self.llama = LlamaForCausalLM(LlamaConfig(num_hidden_layers=layers, **sizes, **heads))

        def logits(self, ids: torch.Tensor) -> Any:
            return self.llama(ids, use_cache=False).logits

    globals()["Model"] = Model  # where the next process finds the class
    Model.__qualname__ = "Model"
    torch.manual_seed(0)
    model = Model().eval()
    ids = torch.arange(8)[None]
    config = air_backend.CompilerConfig.from_options({"mode": mode, "air.cache.save": way == WAYS[1]})
    function: Callable[..., Any]
    if way == WAYS[2]:
        function = air_backend.inference.cache_compile(
            model.logits, config=config, dynamic=dynamic, cache_dir=folder
        )
    else:
        backend = air_backend.get_npu_backend(compiler_config=config)
        function = torch.compile(model.logits, backend=backend, fullgraph=True, dynamic=dynamic)
    with torch.no_grad():
        started = time.process_time()
        function(ids)
        return time.process_time() - started


def in_a_process(way: str, arguments: argparse.Namespace, folder: str) -> float:
    words = [way, arguments.mode, str(arguments.layers), str(int(arguments.dynamic)), folder]
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "torch")}
    ran = subprocess.run(
        [sys.executable, __file__, "--one", json.dumps(words)],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(ran.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mode", default="reduce-overhead")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        way, mode, layers, dynamic, folder = json.loads(arguments.one)
        print(first_call(way, mode, int(layers), dynamic == "1", folder))
        return
    with tempfile.TemporaryDirectory() as folder:
        for way in WAYS[1:]:  # what the measured processes find
            in_a_process(way, arguments, folder)
        rounds = [[in_a_process(way, arguments, folder) for way in WAYS] for _ in range(arguments.rounds)]
    print(
        f"{arguments.layers} layers, {arguments.mode}, {'dynamic' if arguments.dynamic else 'static'} sizes, CPU"
    )
    print(f"{'first call':<16}{'median s':>10}{'to traced':>11}")
    medians = {}
    for index, way in enumerate(WAYS):
        seconds = statistics.median(times[index] for times in rounds)
        ratio = statistics.median(times[index] / times[0] for times in rounds)
        print(f"{way:<16}{seconds:>10.2f}{ratio:>11.2f}")
        medians[way] = seconds
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"first call, s": medians}, file)


if __name__ == "__main__":
    main()
