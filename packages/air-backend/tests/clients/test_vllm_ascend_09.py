"""vLLM-Ascend 0.9: the torchair mode of its model runner, and its helpers."""

from __future__ import annotations

import contextlib
import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from as_eager import assert_same, same_as_eager


def config_of_runner(**experimental: Any) -> Any:
    import torchair  # type: ignore[import-not-found]

    importlib.import_module("torchair.ge_concrete_graph.ge_converter.experimental.patch_for_hcom_allreduce")
    importlib.import_module("torchair._contrib.custom_torch_ops")
    torchair.patch_for_hcom()
    config = torchair.CompilerConfig()
    config.experimental_config.frozen_parameter = True
    config.experimental_config.tiling_schedule_optimize = True
    config.experimental_config.enable_view_optimize = False
    for name, value in experimental.items():
        setattr(config.experimental_config, name, value)
    return config


def stream_switch(tag: str, priority: int, *, enabled: bool = True) -> Any:
    import torchair

    return torchair.scope.npu_stream_switch(tag, priority) if enabled else contextlib.nullcontext()


def wait(tensor: Tensor, on: Tensor, *, enabled: bool = True) -> Tensor:
    import torchair

    result: Tensor = torchair.scope.npu_wait_tensor(tensor, on) if enabled else tensor
    return result


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.out = nn.Linear(16, 16), nn.Linear(16, 8)

    def forward(self, tokens: Tensor, caches: list[tuple[Tensor, Tensor]], slots: Tensor) -> Tensor:
        for keys, values in caches:
            tokens = self.q(tokens)
            keys.index_copy_(0, slots, tokens)
            values.index_copy_(0, slots, tokens * 2)
            tokens = torch.softmax(tokens @ keys.T, -1) @ values
        result: Tensor = self.out(tokens)
        return result


def caches(device: str = "cpu") -> list[tuple[Tensor, Tensor]]:
    return [(torch.zeros(6, 16, device=device), torch.zeros(6, 16, device=device)) for _ in range(2)]


def test_vllm_ascend_09_compiles_the_decode_of_its_runner() -> None:
    import torchair

    model = Decoder().eval()
    backend = torchair.get_npu_backend(compiler_config=config_of_runner())
    run = torch.compile(model, dynamic=True, fullgraph=True, backend=backend)
    same_as_eager(run, model, *((torch.randn(n, 16), caches(), torch.arange(n)) for n in (2, 3)))


def test_vllm_ascend_09_marks_its_buffers_static() -> None:
    import torchair

    model = Decoder().eval()
    backend = torchair.get_npu_backend(compiler_config=config_of_runner())
    run = torch.compile(model, dynamic=True, fullgraph=True, backend=backend)
    kept, slots, x = caches(), torch.arange(2), torch.randn(2, 16)
    expected = caches()
    for tensor in (x, slots, *(one for pair in kept for one in pair)):
        torch._dynamo.mark_static(tensor)
    with torch.no_grad():
        for _ in range(3):
            assert_same(run(x, kept, slots), model(x, expected, slots))
            assert_same(kept, expected)


def test_vllm_ascend_09_keeps_a_compilation_for_each_batch_size(tmp_path: Path) -> None:
    import torchair

    model = Step().eval()
    kept = {}
    for size in (2, 4):
        kept[size] = torchair.inference.cache_compile(
            model.forward,
            dynamic=True,
            config=config_of_runner(),
            cache_dir=str(tmp_path / str(size)),
            ge_cache=False,
        )
    for size in (2, 4, 2):
        x = torch.randn(size, 8)
        with torch.no_grad():
            assert_same(kept[size](x), model(x))
    assert all(list((tmp_path / str(size)).rglob("*")) for size in (2, 4))


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.linear(x)
        return result


@pytest.mark.parametrize("enabled", [False, True])
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_vllm_ascend_09_runs_shared_experts_on_a_second_stream(mode: str, enabled: bool) -> None:
    import torchair

    gate, shared = torch.randn(8, 8), torch.randn(8, 8)

    def moe(x: Tensor) -> Tensor:
        routed = torch.softmax(x @ gate, -1)
        with stream_switch("moe_secondary", 0, enabled=enabled):
            x2 = wait(x, routed, enabled=enabled)
            other = torch.relu(x2 @ shared)
        return routed * x + other

    config = config_of_runner()
    config.mode = mode
    run = torch.compile(
        moe, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True, dynamic=False
    )
    same_as_eager(run, moe, (torch.randn(4, 8),), repeat=3)


@pytest.mark.npu("the program of vLLM-Ascend is for NPUs")
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_vllm_ascend_09_decodes_on_the_device(mode: str) -> None:
    import torchair

    vars(torch)["npu"].set_compile_mode(jit_compile=False)
    model = Decoder().eval().to("npu")
    config = config_of_runner()
    config.mode = mode
    run = torch.compile(
        model, dynamic=True, fullgraph=True, backend=torchair.get_npu_backend(compiler_config=config)
    )
    calls = [(torch.randn(n, 16).to("npu"), caches("npu"), torch.arange(n).to("npu")) for n in (2, 3)]
    same_as_eager(run, model, *calls)


@pytest.mark.npu("the program of vLLM-Ascend is for NPUs")
def test_vllm_ascend_09_prefetches_a_weight_beside_the_attention() -> None:
    import torch_npu

    import torchair

    weight = torch.randn(16, 16).to("npu")

    def layer(x: Tensor) -> Tensor:
        scores = torch.softmax(x @ x.T, -1)
        with stream_switch("prefetch", 0):
            torch_npu.npu_prefetch(weight, x, 16 * 16 * 4)
        result: Tensor = scores @ x @ weight
        return result

    run = torch.compile(
        layer,
        backend=torchair.get_npu_backend(compiler_config=config_of_runner()),
        fullgraph=True,
        dynamic=False,
    )
    same_as_eager(run, layer, (torch.randn(4, 16).to("npu"),))


@pytest.mark.npu("the program of vLLM-Ascend is for NPUs")
def test_vllm_ascend_09_keeps_keys_normalised_and_rotated_by_one_operator() -> None:
    import torch_npu

    import torchair

    gamma = torch.rand(512).half().to("npu")

    def keys(kv: Tensor, cos: Tensor, sin: Tensor, index: Tensor, rope: Tensor, latent: Tensor) -> Any:
        found = torch_npu.npu_kv_rmsnorm_rope_cache(kv, gamma, cos, sin, index, rope, latent, epsilon=1e-5)
        return found[:2]

    config = config_of_runner()
    config.mode = "reduce-overhead"
    run = torch.compile(
        keys, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True, dynamic=False
    )
    inputs = (
        torch.randn(2, 1, 1, 576).half().to("npu"),
        torch.randn(2, 1, 1, 64).half().to("npu"),
        torch.randn(2, 1, 1, 64).half().to("npu"),
        torch.zeros(2, 1, dtype=torch.int64).to("npu"),
        torch.zeros(2, 1, 4, 64).half().to("npu"),
        torch.zeros(2, 1, 4, 512).half().to("npu"),
    )
    same_as_eager(run, keys, inputs)
