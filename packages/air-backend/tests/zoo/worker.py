"""The process that makes and judges: it gets names over a pipe, and tells after every step what it found.

A crash or a step that does not end is seen by the process that started it (`running`), which knows the step from what
it was told last.
"""

from __future__ import annotations

import gc
import logging
import os
import resource
import sys
import warnings
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from zoo.architectures import Architecture

MEMORY: Final = 14 << 30
"""Bytes that a process may ask for."""


GROUNDS: Final[dict[str, Literal["npu", "cuda", "cpu"]]] = {
    "cpu": "cpu",
    "sim": "npu",
    "npu": "npu",
    "cuda": "cuda",
}
"""The kind of device of each ground."""


def ground_of(name: str) -> Any:
    """The ground of this name, which this machine has to have."""
    from air_backend._ground import ground_named

    if (ground := ground_named(GROUNDS[name])) is None:
        raise SystemExit(f"zoo: there is no {GROUNDS[name]} here for --ground {name}")
    return ground


class Task(NamedTuple):
    """What every process is told."""

    ground: str
    ways: Sequence[str]
    log: str
    """The file that takes what models and libraries print."""
    train: bool = False
    """Whether a call is a step of training."""


class Step(NamedTuple):
    """What has begun (`done` is None), or what came of it."""

    what: str
    done: Any = None


def work(task: Task, pipe: Connection) -> None:
    """Answers every architecture with steps; the last is called `end`, and says whether the device still works."""
    _quiet(task.log)
    from zoo.unloaded import declare_what_torchvision_lacks

    declare_what_torchvision_lacks()

    device = ground_of(task.ground).device
    pipe.send(Step("ready"))
    while (architecture := pipe.recv()) is not None:
        _judge(architecture, task, device, pipe)
        gc.collect()
        pipe.send(Step("end", device_works(device)))


def device_works(device: Any) -> bool:
    """Whether the device still computes: after a kernel has failed, an NPU refuses all else in the process."""
    import torch

    try:
        return int((torch.ones(1, device=device) + 1).item()) == 2
    except RuntimeError:
        return False


def _judge(architecture: Architecture, task: Task, device: Any, pipe: Connection) -> None:
    from zoo import judging, steps
    from zoo.architectures import make

    pipe.send(Step("made"))
    try:
        made = make(architecture)
    except Exception as error:
        pipe.send(Step("made", (False, judging.told(error))))
        return
    pipe.send(Step("made", (True, made.made_of)))
    step = steps.training if task.train else steps.inference
    pipe.send(Step("eager"))
    try:
        if task.train:
            steps.to_be_trained(made.model)
        expected, is_random = judging.eager(made, device, step)
    except Exception as error:
        pipe.send(Step("eager", (False, judging.told(error))))
        return
    pipe.send(Step("eager", (True, is_random)))
    pipe.send(Step("together"))
    good = judging.together(made, task.ways, expected, is_random, device, step)
    for way, outcome in good.items():
        pipe.send(Step(way, outcome))
    for way in (way for way in task.ways if way not in good):
        pipe.send(Step(way))
        pipe.send(Step(way, judging.compiled(made, way, expected, is_random, device, step)))


def _quiet(log: str) -> None:
    """What models print goes to a file; logs and warnings are dropped."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    Path(log).parent.mkdir(parents=True, exist_ok=True)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(file, stream.fileno())
    os.environ["HF_HUB_OFFLINE"] = "1"  # a model that asks for weights is told no at once
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
