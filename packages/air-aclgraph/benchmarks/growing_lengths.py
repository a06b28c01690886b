"""A decode step whose sequence lengths grow: attention operators that are patched before each replay.

    AIR_SIM_NOOP=1 TASK_QUEUE_ENABLE=0 air-sim run python benchmarks/growing_lengths.py --json results.json

Beside AIR stand TorchAir and a replay that a program patches by hand, with the same calls of torch_npu and nothing
around them: what any way to patch costs at the least.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import logging
import types
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import torch
from _measure import NOTE, Row, device_of, interleave, numbers, show, table, write
from hot_path import ours, torchair
from torch import Tensor

from air_aclgraph import Executable

_COPIES: Final = itertools.count()
FIXED: Final = [33]
GROWING: Final = range(8, 60)

Step = Callable[[Tensor, Tensor, Tensor, int], Tensor]


def attention() -> Any:
    """The operator of torch_npu."""
    return importlib.import_module("torch_npu").npu_fused_infer_attention_score


def step_of(layers: int, requests: int) -> Step:
    """So many layers, each with the lengths of all requests."""
    operator = attention()

    def step(q: Tensor, k: Tensor, v: Tensor, length: int) -> Tensor:
        for _ in range(layers):
            q, _ = operator(
                q, k, v, num_heads=2, input_layout="BSND", actual_seq_lengths_kv=[length] * requests
            )
        return q

    code = step.__code__.replace(co_name=f"step_{next(_COPIES)}")  # Dynamo looks its cache up by code
    return types.FunctionType(code, step.__globals__, code.co_name, None, step.__closure__)


class ByHand:
    """A capture of torch_npu with one task group and one event for each layer, patched before it runs on."""

    def __init__(self, layers: int, requests: int, q: Tensor, k: Tensor, v: Tensor) -> None:
        self._npu: Any = torch.get_device_module("npu")
        self._operator, self._requests = attention(), requests
        self._k, self._v = k, v
        self._graph, self._stream = self._npu.NPUGraph(), self._npu.Stream()
        self._round_over, self._started = self._npu.Event(), False
        self._groups: list[tuple[Any, Any, Tensor, list[Tensor]]] = []
        with self._npu.graph(self._graph):
            for _ in range(layers):
                q = self._captured(q)

    def _call(self, q: Tensor, out: list[Tensor], length: int) -> None:
        self._operator.out(
            q, self._k, self._v, num_heads=2, input_layout="BSND",
            actual_seq_lengths_kv=[length] * self._requests, out=out,
        )  # fmt: skip

    def _captured(self, q: Tensor) -> Tensor:
        stream, event = self._npu.current_stream(), self._npu.ExternalEvent()
        out = [torch.empty_like(q), torch.empty(1, device=q.device)]
        event.wait(stream)
        event.reset(stream)
        self._npu.graph_task_group_begin(stream)
        self._call(q, out, FIXED[0])
        self._groups.append((event, self._npu.graph_task_group_end(stream), q, out))
        return out[0]

    def __call__(self, length: int) -> None:
        self._graph.replay()
        with self._npu.stream(self._stream):
            if self._started:
                self._stream.wait_event(self._round_over)
            for event, handle, q, out in self._groups:
                self._npu.graph_task_update_begin(self._stream, handle)
                self._call(q, out, length)
                self._npu.graph_task_update_end(self._stream)
                event.record(self._stream)
        self._round_over.record(self._npu.current_stream())
        self._started = True


def in_turn(call: Callable[[int], Any], lengths: Sequence[int]) -> Callable[[], Any]:
    """A call with the next length, which has run often enough to be captured."""
    turn = itertools.cycle(lengths)
    for _ in range(6):
        call(next(turn))
    return lambda: call(next(turn))


def patched(executables: Sequence[Executable]) -> None:
    """Refuses numbers of a capture for each length."""
    if (len(executables[-1].keys()), bool(executables[-1].explain()["updates"])) != (1, True):
        raise RuntimeError("the length is part of the key: nothing is updated")


def rows_of(layers: int, requests: int, device: str) -> list[Row]:
    q = torch.randn(requests, 1, 2, 16, device=device, dtype=torch.float16)
    k, v = (torch.randn(requests, 64, 2, 16, device=device, dtype=torch.float16) for _ in range(2))
    executables: list[Executable] = []
    rows = [Row("by hand, lengths that grow", in_turn(ByHand(layers, requests, q, k, v), GROWING))]
    for name, backend in (("AIR", ours(executables)), ("TorchAir", torchair())):
        for kind, dynamic, lengths in (("fixed lengths", False, FIXED), ("lengths that grow", True, GROWING)):
            compiled = torch.compile(step_of(layers, requests), backend=backend, dynamic=dynamic)
            rows.append(Row(f"{name}, {kind}", in_turn(partial(compiled, q, k, v), lengths)))
        if name == "AIR":
            patched(executables)
    return rows


def main() -> None:
    """Measures both ways and prints their table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--requests", type=int, default=64)
    arguments = parser.parse_args()
    logging.disable(logging.INFO)
    with torch.no_grad():
        rows = rows_of(arguments.layers, arguments.requests, "npu")
        interleave(rows, rounds=arguments.rounds, device=device_of("npu"))
    title = f"{arguments.layers} attention operators, lengths of {arguments.requests} requests"
    show(table(title, rows, (rows[0].least_us, rows[0].median_us), f"base: the first row.  {NOTE}"))
    write(arguments.json, {"growing lengths": numbers(rows)})


if __name__ == "__main__":
    main()
