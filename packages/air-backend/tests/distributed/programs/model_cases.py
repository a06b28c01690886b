"""Models of Hugging Face, tiny and with random weights, split over the ranks in the ways that people split them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from distributed.programs.setting import CALLS, Case, Setting, equal, same_gradients

SIZES: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4,
    "vocab_size": 64, "max_position_embeddings": 32, "num_hidden_layers": 2,
}  # fmt: skip
LENGTH = 8


def llama(setting: Setting) -> Any:
    config = transformers.LlamaConfig(attn_implementation="sdpa", **SIZES)
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).to(setting.device)


def tokens(setting: Setting, rows: int = 2) -> Tensor:
    return torch.randint(0, SIZES["vocab_size"], (rows, LENGTH)).to(setting.device)


def logits(model: Any, ids: Tensor) -> Tensor:
    found: Tensor = model(input_ids=ids, use_cache=False).logits
    return found


LAYER = {
    "self_attn.q_proj": ColwiseParallel(),
    "self_attn.k_proj": ColwiseParallel(),
    "self_attn.v_proj": ColwiseParallel(),
    "self_attn.o_proj": RowwiseParallel(),
    "mlp.gate_proj": ColwiseParallel(),
    "mlp.up_proj": ColwiseParallel(),
    "mlp.down_proj": RowwiseParallel(),
}
TENSOR = {
    "model.embed_tokens": RowwiseParallel(input_layouts=Replicate()),
    "lm_head": ColwiseParallel(output_layouts=Replicate()),
    **{f"model.layers.*.{name}": style for name, style in LAYER.items()},
}
BY_LENGTH: dict[str, Any] = {"output_layouts": Shard(1), "use_local_output": False}
SEQUENCE = {
    **TENSOR,
    "model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), **BY_LENGTH),
    "model.norm": SequenceParallel(),
    "lm_head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    "model.layers.*.input_layernorm": SequenceParallel(),
    "model.layers.*.post_attention_layernorm": SequenceParallel(),
    "model.layers.*.self_attn": PrepareModuleInput(
        input_kwarg_layouts={"hidden_states": Shard(1)},
        desired_input_kwarg_layouts={"hidden_states": Replicate()},
    ),
    "model.layers.*.self_attn.o_proj": RowwiseParallel(**BY_LENGTH),
    "model.layers.*.mlp": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
    "model.layers.*.mlp.down_proj": RowwiseParallel(**BY_LENGTH),
}


def inference(plan: dict[str, Any]) -> Case:
    def case(setting: Setting) -> None:
        alone = llama(setting).eval()
        shared = parallelize_module(copy.deepcopy(alone), setting.mesh, plan)
        compiled = setting.compiled(shared, fullgraph=False)
        with torch.no_grad():
            for _ in range(CALLS):
                ids = tokens(setting)
                equal(logits(compiled, ids), logits(alone, ids))

    return case


def trained(shared: Callable[[Setting, Any], Any]) -> Case:
    """Three steps of an optimizer, on the rows of each rank, against the steps of one process on all rows."""

    def case(setting: Setting) -> None:
        alone = llama(setting)
        ours = shared(setting, copy.deepcopy(alone))
        compiled = setting.compiled(ours, fullgraph=False)
        ranks, rank = setting.mesh.size(), setting.rank
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, foreach=False) for model in (alone, ours)]
        for _ in range(CALLS):
            ids = tokens(setting, rows=2 * ranks)
            mine = ids if shared is tensor_parallel else ids[2 * rank : 2 * rank + 2]
            for optimizer, call, rows in zip(optimizers, (alone, compiled), (ids, mine), strict=True):
                optimizer.zero_grad()
                call(input_ids=rows, labels=rows, use_cache=False).loss.backward()
                optimizer.step()
            same_gradients(ours.parameters(), alone.parameters())

    return case


def tensor_parallel(setting: Setting, model: nn.Module) -> nn.Module:
    return parallelize_module(model, setting.mesh, TENSOR)


def fsdp(setting: Setting, model: Any) -> Any:
    for layer in model.model.layers:
        fully_shard(layer, mesh=setting.mesh)
    return fully_shard(model, mesh=setting.mesh)


def ddp(setting: Setting, model: nn.Module) -> nn.Module:
    devices = None if setting.device.type == "cpu" else [setting.device.index]
    return DistributedDataParallel(model, device_ids=devices)


CASES: dict[str, Case] = {
    "llama by tensor parallel": inference(TENSOR),
    "llama by tensor and sequence parallel": inference(SEQUENCE),
    "llama trained by tensor parallel": trained(tensor_parallel),
    "llama trained by FSDP2": trained(fsdp),
    "llama trained by DDP": trained(ddp),
}
