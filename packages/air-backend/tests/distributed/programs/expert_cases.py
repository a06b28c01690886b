"""Mixtral with its experts spread over the ranks: tokens travel to their experts and back by uneven exchanges."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import transformers
from torch import Tensor, nn

from distributed.programs.setting import CALLS, Case, Setting, equal

EXPERTS, ROWS, LENGTH = 4, 2, 5


class SpreadExperts(nn.Module):
    """The share of a rank of a layer's experts, called with the tokens of this rank."""

    def __init__(self, experts: Any) -> None:
        super().__init__()
        self.ranks, self.own = dist.get_world_size(), EXPERTS // dist.get_world_size()
        first = dist.get_rank() * self.own
        self.gate_up = nn.Parameter(experts.gate_up_proj[first : first + self.own].detach().clone())
        self.down = nn.Parameter(experts.down_proj[first : first + self.own].detach().clone())
        self.activation = experts.act_fn

    def forward(self, tokens: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        flat = chosen.flatten()
        order = flat.argsort(stable=True)
        row = order // chosen.shape[1]
        leaving = torch.nn.functional.one_hot(flat, EXPERTS).sum(0)
        arriving = torch.empty_like(leaving)
        dist.all_to_all_single(arriving, leaving)
        sent = leaving.view(self.ranks, self.own).sum(1).tolist()
        received = arriving.view(self.ranks, self.own).sum(1).tolist()
        visitors = exchanged(tokens[row], received, sent)
        kinds = torch.arange(self.own, device=tokens.device).repeat(self.ranks)
        expert = torch.repeat_interleave(kinds, arriving, output_size=sum(received))
        answers = torch.zeros_like(visitors)
        for number in range(self.own):
            gate, up = (visitors @ self.gate_up[number].t()).chunk(2, -1)
            answer = (self.activation(gate) * up) @ self.down[number].t()
            answers = torch.where((expert == number).unsqueeze(1), answer, answers)
        home = exchanged(answers, sent, received) * weights.flatten()[order].unsqueeze(1)
        return torch.zeros_like(tokens).index_add(0, row, home)


def exchanged(rows: Tensor, received: list[int], sent: list[int]) -> Tensor:
    """The rows that the other ranks have for this one."""
    group: Any = dist.group.WORLD
    exchange = functional.all_to_all_single_autograd if rows.requires_grad else functional.all_to_all_single
    found: Tensor = exchange(rows, received, sent, group)
    return found


def mixtral(setting: Setting) -> Any:
    config = transformers.MixtralConfig(
        hidden_size=32, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2, vocab_size=64,
        num_hidden_layers=2, num_local_experts=EXPERTS, num_experts_per_tok=2, max_position_embeddings=32,
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.MixtralForCausalLM(config).to(setting.device).eval()


def spread(*, scalars: bool) -> Case:
    """With `scalars` the split sizes are numbers inside of one graph; without, Dynamo breaks the graph at them."""

    def case(setting: Setting) -> None:
        alone = mixtral(setting)
        ours = copy.deepcopy(alone)
        for layer in ours.model.layers:
            layer.mlp.experts = SpreadExperts(layer.mlp.experts)
        with torch._dynamo.config.patch(capture_scalar_outputs=scalars), torch.no_grad():
            compiled = setting.compiled(ours, fullgraph=False)
            for step in range(CALLS):
                torch.manual_seed(10 * step + setting.rank)
                ids = torch.randint(0, 64, (ROWS, LENGTH)).to(setting.device)
                found = compiled(input_ids=ids, use_cache=False).logits
                equal(found, alone(input_ids=ids, use_cache=False).logits)

    return case


CASES: dict[str, Case] = {
    "mixtral with experts spread over ranks": spread(scalars=False),
    "mixtral with experts spread over ranks, in one graph": spread(scalars=True),
}
