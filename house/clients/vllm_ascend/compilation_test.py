"""vLLM-Ascend's compilation of a decode step: its compiler interface, its graph wrapper, its cache, its patch."""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch_npu
from torch import Tensor, nn

from house.clients.vllm_ascend import checkout

checkout.install()
interface = checkout.load("compilation.compiler_interface")
acl_graph = checkout.load("compilation.acl_graph")

WIDTH, HEADS, SLOTS, BATCH = 32, 4, 16, 4


class Layer(nn.Module):
    """One layer of a decoder over a cache of slots: a token for each sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor, slots: Tensor, mask: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        normed, _ = torch_npu.npu_rms_norm(x, self.norm, 1e-6)
        q, k, v = self.qkv(normed).split(WIDTH, dim=-1)
        keys.index_copy_(0, slots, k)
        values.index_copy_(0, slots, v)
        heads = q.view(-1, HEADS, WIDTH // HEADS).transpose(0, 1)
        scores = heads @ keys.view(SLOTS, HEADS, -1).permute(1, 2, 0) / (WIDTH // HEADS) ** 0.5
        found = (scores + mask).softmax(-1) @ values.view(SLOTS, HEADS, -1).transpose(0, 1)
        x = x + self.out(found.transpose(0, 1).reshape(-1, WIDTH))
        result: Tensor = x + self.down(torch_npu.npu_swiglu(self.up(x)))
        return result


class Step:
    """The buffers of a decode step, at fixed addresses as vLLM keeps them, and the same in eager."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.layer = Layer().to("npu")
        self.x = torch.zeros(BATCH, WIDTH, device="npu")
        self.slots = torch.arange(BATCH, device="npu")
        self.mask = torch.zeros(BATCH, SLOTS, device="npu")
        self.cache = [torch.zeros(SLOTS, WIDTH, device="npu") for _ in range(2)]
        self.eager = [torch.zeros(SLOTS, WIDTH, device="npu") for _ in range(2)]

    def next(self, number: int, tokens: int) -> None:
        self.x[:tokens].copy_(torch.randn(tokens, WIDTH))
        self.slots[:tokens].copy_((torch.arange(tokens) + 3 * number) % SLOTS)
        self.mask.fill_(float("-inf"))
        self.mask[:, : 3 * number + BATCH] = 0

    def inputs(self, tokens: int, caches: list[Tensor]) -> tuple[Tensor, ...]:
        sized = self.x[:tokens], self.slots[:tokens], self.mask[:tokens]
        for tensor in sized:
            torch._dynamo.mark_dynamic(tensor, 0)
        return *sized, *caches

    def expected(self, tokens: int) -> Tensor:
        with torch.no_grad():
            result: Tensor = self.layer(*self.inputs(tokens, self.eager))
        return result


def compiled(step: Step, compiler: Any, kept: list[Any], key: str = "decode") -> Any:
    """The layer as vLLM has it compiled: Dynamo's graph goes through AscendCompiler."""

    def backend(graph: Any, inputs: Any) -> Any:
        run, handle = compiler.compile(graph, inputs, {}, checkout.Range(1, BATCH), key)
        kept.append(handle)
        return run

    torch._dynamo.reset()
    return torch.compile(step.layer, backend=backend, fullgraph=True)


def new_compiler(folder: str) -> Any:
    compiler = interface.AscendCompiler()
    compiler.compute_hash(checkout.vllm_config)
    compiler.initialize_cache(folder)
    return compiler


class CompilationTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def decode(self, run: Any, step: Step) -> None:
        """Captures three sizes and replays them over a cache that goes on."""
        wrapper = acl_graph.ACLGraphWrapper(run, checkout.vllm_config, checkout.CUDAGraphMode.FULL)
        with torch.no_grad():
            for number, tokens in enumerate((4, 2, 4, 3, 2, 4, 4)):
                step.next(number, tokens)
                with checkout.batch(tokens):
                    if checkout.context.batch_descriptor not in wrapper.concrete_aclgraph_entries:
                        with checkout.batch(tokens, checkout.CUDAGraphMode.NONE):
                            wrapper(*step.inputs(tokens, [c.clone() for c in step.cache]))
                with checkout.batch(tokens):
                    new = checkout.context.batch_descriptor not in wrapper.concrete_aclgraph_entries
                    result = wrapper(*step.inputs(tokens, step.cache))
                    if new:  # a capture runs nothing
                        result = wrapper(*step.inputs(tokens, step.cache))
                torch.accelerator.synchronize()
                torch.testing.assert_close(result, step.expected(tokens), rtol=1e-4, atol=1e-5)
                for ours, eager in zip(step.cache, step.eager, strict=True):
                    torch.testing.assert_close(ours, eager)
        assert len(wrapper.concrete_aclgraph_entries) == 3

    def test_a_decode_step_is_compiled_captured_and_replayed(self) -> None:
        step = Step()
        kept: list[Any] = []
        run = compiled(step, new_compiler(self.folder), kept)
        self.decode(run, step)
        assert len(kept) == 1

    def test_a_kept_text_gives_the_next_process_the_same_step(self) -> None:
        step = Step()
        kept: list[Any] = []
        run = compiled(step, new_compiler(self.folder), kept)
        with torch.no_grad():
            run(*step.inputs(BATCH, [c.clone() for c in step.cache]))
        (handle,) = kept
        assert Path(handle[1]).read_text()

        def backend(found: Any, given: Any) -> Any:
            return new_compiler(self.folder).load(handle, found, given, 0, checkout.Range(1, BATCH))

        torch._dynamo.reset()
        self.decode(torch.compile(step.layer, backend=backend, fullgraph=True), step)

    def test_without_npugraph_ex_the_route_over_torchair_works_as_well(self) -> None:
        step = Step()
        kept: list[Any] = []
        with mock.patch.dict(sys.modules, {"npugraph_ex": None}):
            run = compiled(step, new_compiler(self.folder), kept)
            with torch.no_grad():
                run(*step.inputs(BATCH, [c.clone() for c in step.cache]))
        assert kept[0] is None
        self.decode(run, step)

    def test_with_the_patch_for_triton_in_place_results_are_the_same(self) -> None:
        checkout.load("patch.worker.patch_npugraph_ex_triton")
        step = Step()
        kept: list[Any] = []
        self.decode(compiled(step, new_compiler(self.folder), kept), step)


if __name__ == "__main__":
    unittest.main()
