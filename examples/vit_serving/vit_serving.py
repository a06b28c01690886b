"""Serving a vision transformer: requests come in batches of any size, and a few captured graphs serve all.

    python examples/vit_serving/vit_serving.py

A batch that is no bucket is filled up to the next one, the graph runs, and the caller gets as many rows as it gave.
When the graph is compiled, AIR proves operator by operator that the added rows cannot reach the others.
"""

from __future__ import annotations

import queue
import threading
from typing import Any

import torch
import transformers
from torch import Tensor
from torch._dynamo.utils import counters

from air_backend import CompilerConfig, get_npu_backend
from air_backend.inference import set_dim_buckets

BUCKETS = [2, 4, 8]
AT_ONCE = 8  # requests that one call serves at most


def tiny_vit() -> Any:
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
        num_labels=10,
        attn_implementation="eager",  # an NPU needs the model's own attention where sizes vary
    )
    return transformers.ViTForImageClassification(config).eval()


class Server:
    """Takes pictures from a queue, as many as there are, and answers each through a queue of its own."""

    def __init__(self, model: Any) -> None:
        config = CompilerConfig()
        config.mode = "reduce-overhead"
        self.classify = torch.compile(model, backend=get_npu_backend(compiler_config=config))
        self.requests: queue.Queue[tuple[Tensor, queue.Queue[Tensor]] | None] = queue.Queue()
        self.batches: list[int] = []

    def batch(self, pictures: Tensor) -> Tensor:
        set_dim_buckets(pictures, {0: BUCKETS})  # before the compiled function sees the tensor
        with torch.no_grad():
            return self.classify(pictures).logits

    def warm_up(self) -> None:
        """Captures each bucket, the largest first, so that the smaller ones fit into its memory; torch makes a graph of
        its own for a batch of one."""
        for rows in (*reversed(BUCKETS), 1):
            self.batch(torch.zeros(rows, 3, 32, 32))

    def serve(self) -> None:
        while (first := self.requests.get()) is not None:
            waiting = [first]
            while len(waiting) < AT_ONCE and not self.requests.empty():
                if (more := self.requests.get()) is None:
                    self.requests.put(None)
                    break
                waiting.append(more)
            answers = self.batch(torch.stack([picture for picture, _ in waiting]))
            self.batches.append(len(waiting))
            for (_, reply), answer in zip(waiting, answers, strict=True):
                reply.put(answer)


def main() -> None:
    model = tiny_vit()
    server = Server(model)
    server.warm_up()
    captured = counters["air"]["captures"]

    pictures = torch.randn(27, 3, 32, 32)
    replies: list[queue.Queue[Tensor]] = [queue.Queue() for _ in pictures]
    for picture, reply in zip(pictures, replies, strict=True):
        server.requests.put((picture, reply))
    server.requests.put(None)
    worker = threading.Thread(target=server.serve)
    worker.start()
    worker.join()

    with torch.no_grad():
        expected = model(pictures).logits
    for row, reply in zip(expected, replies, strict=True):
        torch.testing.assert_close(reply.get_nowait(), row, rtol=1e-4, atol=1e-4)
    assert counters["air"]["captures"] == captured
    print(f"{len(pictures)} pictures in batches of {server.batches}")
    print(f"{captured} captures before the first request, none while serving")


if __name__ == "__main__":
    main()
