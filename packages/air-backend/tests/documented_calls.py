"""What torch's documentation shows, compiled call by call: what is not as in eager, whose own run is the judge."""

from __future__ import annotations

import json
import signal
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map

from against_eager import difference
from air_backend import CompilerConfig, get_npu_backend
from documented import Call, examples

SHARDS = 6
SECONDS = 60  # for one call
SEEDS = range(8, 16)
#: Memory that nobody has written; the order of equal values in an unstable sort is nobody's either.
LEFT_OUT = ("empty", "skip_init", "argsort", "sort(")


class TooLong(BaseException):  # what catches every Exception is to leave it alone
    """A call takes longer than an example should."""


@contextmanager
def in_time() -> Iterator[None]:
    def end(signal_number: int, frame: types.FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def seen(results: Any) -> Any:
    """What a caller sees: tensors, also those of a module; of tensors with other layouts only that they are tensors."""
    plain = tree_map(
        lambda one: one.state_dict(keep_vars=True) if isinstance(one, nn.Module) else one, results
    )
    return tree_map(lambda one: one if _is_plain(one) else type(one).__name__, plain)


def shapes(results: Any) -> Any:
    """What does not depend on the numbers that were drawn."""
    return tree_map(lambda one: torch.zeros_like(one) if isinstance(one, Tensor) else None, results)


def _is_plain(value: object) -> bool:
    if not isinstance(value, Tensor) or is_lazy(value):
        return False
    return value.layout is torch.strided and not value.is_nested and not value.is_quantized


def outcome(call: Call, backend: Any, expected: Any) -> tuple[str, Any]:
    """What is not as in eager in two calls, of which the second replays, and the results; empty where all is."""
    torch._dynamo.reset()
    run = torch.compile(call.function, backend=backend)
    for _ in range(2):
        try:
            found = seen(call.run(run))
        except Exception as error:
            return f"{type(error).__name__}: {error}", None
        if told := difference(expected, found):
            return told, found
    return "", None


def fault(call: Call, mode: Any) -> str:
    """What AIR does otherwise than eager, where torch's own front does not."""
    config = CompilerConfig()
    config.mode = mode
    try:
        expected, again = (seen(call.run(call.function)) for _ in range(2))
    except Exception:  # eager refuses, or a value cannot be copied
        return ""
    if difference(expected, again):
        return ""
    told, found = outcome(call, get_npu_backend(compiler_config=config), expected)
    if not told or outcome(call, "aot_eager", expected)[0]:
        return ""
    is_drawn = mode == "max-autotune" and found is not None and depends_on_seed(call, expected)
    return (
        difference(*map(shapes, (expected, found))) if is_drawn else told
    )  # the engine draws its own numbers


def depends_on_seed(call: Call, expected: Any) -> bool:
    return any(difference(expected, seen(call.run(call.function, seed))) for seed in SEEDS)


def judged(mode: str, shard: int) -> tuple[int, list[str]]:
    """How many calls of a part of the documentation were compared, and what is not as in eager."""
    wrong: list[str] = []
    calls = 0

    def judge(call: Call) -> None:
        nonlocal calls
        if any(word in call.text for word in LEFT_OUT):
            return
        try:
            with in_time():
                told = fault(call, mode)
        except TooLong:
            return
        calls += 1
        if told:
            wrong.append(f"{call.function.__code__.co_filename} {call.text}: {told}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for example in [*examples()][shard::SHARDS]:
            example.calls(judge)
    return calls, wrong


def main() -> None:
    mode, shard, file = sys.argv[1:]
    Path(file).write_text(json.dumps(judged(mode, int(shard))))
