"""The demo's model, split over several processes, against the whole model in each of them.

    torchrun --nproc-per-node 2 -m air_backend.demo.parallel
    air-sim run --set devices=2 torchrun --nproc-per-node 2 -m air_backend.demo.parallel --device npu

Every rank runs a prefill and decode steps of the whole model in eager, then its share of it in eager and in every mode,
and compares the logits; rank 0 prints one line per mode. CPU tensors communicate by gloo, NPU tensors by HCCL.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor

from air_backend.demo._llama import Llama, LlamaSize
from air_backend.demo._run import ALLOWED, compiled, config_of, difference
from air_backend.demo._shares import split
from air_backend.demo.errors import DemoMismatch

__all__ = ["compare", "compiled", "config_of", "device_of", "difference", "logits_of", "main"]

MODES: Final = ("eager", "run_eagerly", "reduce-overhead", "max-autotune")
BACKENDS: Final = {"cpu": "gloo", "npu": "hccl"}
SMALL: Final = LlamaSize(layers=1, hidden=64, feed_forward=96, vocabulary=128, cache_length=16)
PROMPT: Final = 6
STEPS: Final = 3


def logits_of(model: Llama, call: Callable[..., Any], tokens: Tensor) -> list[Tensor]:
    """A prefill and the decode steps after it, from an empty cache."""
    model.forget()
    device = tokens.device
    with torch.no_grad():
        found = [call(tokens[:, :PROMPT], torch.arange(PROMPT, device=device)).clone()]
        for place in range(PROMPT, PROMPT + STEPS):
            position = torch.tensor([place], device=device)
            found.append(call(tokens[:, place : place + 1], position).clone())
    return found


def device_of(kind: str) -> torch.device:
    """The device of this process: on an accelerator the one of its local rank."""
    if kind == "cpu":
        return torch.device("cpu")
    device = torch.device(kind, int(os.environ["LOCAL_RANK"]))
    torch.get_device_module(kind).set_device(device)
    return device


def compare(device: torch.device, size: LlamaSize = SMALL, modes: Sequence[str] = MODES) -> dict[str, float]:
    """The largest difference from the whole model, by mode; a process group has to be there."""
    group = dist.group.WORLD
    assert group is not None
    torch.manual_seed(0)
    whole = Llama(size).to(device).eval()
    tokens = torch.randint(size.vocabulary, (1, PROMPT + STEPS)).to(device)
    expected = logits_of(whole, whole, tokens)
    found = {}
    for mode in modes:
        model = split(whole, group).to(device).eval()
        call = compiled(model, mode)
        found[mode] = max(difference(logits_of(model, call, tokens), expected) for _ in range(3))
        if not found[mode] <= ALLOWED:
            raise DemoMismatch(mode, found[mode], ALLOWED)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs in each process of `torchrun`; raises where a mode differs from the whole model."""
    parser = argparse.ArgumentParser(description="The demo's model split over the processes of torchrun.")
    parser.add_argument("--device", default="cpu", choices=tuple(BACKENDS))
    kind = parser.parse_args(arguments).device
    device = device_of(kind)
    dist.init_process_group(BACKENDS[kind])
    found = compare(device)
    if dist.get_rank() == 0:
        for mode, worst in found.items():
            line = (
                f"{mode:16} {dist.get_world_size()} ranks equal one process (largest difference {worst:.1e})"
            )
            sys.stdout.write(line + "\n")
    if kind != "cpu":
        torch.accelerator.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
