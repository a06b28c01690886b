"""S16: `npu_kv_rmsnorm_rope_cache_v2` in a decode step, on any machine."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from air_fxpasses import Facts, Pipeline, copies, default_passes, npu_ops
from air_fxpasses.testing import backend_of, copied, functional_graph

npu_ops.declare()
LATENT, ROPE, LENGTH = 16, 8, 32
CACHE_BYTES = LENGTH * ROPE * 4


def inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    return [
        torch.randn(1, 1, 1, LATENT + ROPE, generator=generator),
        torch.ones(LATENT),
        torch.randn(1, 1, 1, ROPE, generator=generator),
        torch.randn(1, 1, 1, ROPE, generator=generator),
        torch.tensor([5]),
        torch.zeros(1, 1, LENGTH, ROPE),
        torch.zeros(1, 1, LENGTH, LATENT),
    ]


def step(kv: Any, gamma: Any, cos: Any, sin: Any, at: Any, k: Any, c: Any) -> Any:
    torch.ops.npu.npu_kv_rmsnorm_rope_cache_v2(kv, gamma, cos, sin, at, k, c, is_output_kv=True)
    return torch.softmax(k.sum(-1), -1) @ c


def functional_step(kv: Any, gamma: Any, cos: Any, sin: Any, at: Any, k: Any, c: Any) -> Any:
    op = torch.ops.npu.npu_kv_rmsnorm_rope_cache_v2_functional
    _, _, new_k, new_c = op(kv, gamma, cos, sin, at, k, c, is_output_kv=True)
    k.copy_(new_k)
    c.copy_(new_c)
    return torch.softmax(new_k.sum(-1), -1) @ new_c


@pytest.mark.parametrize("form", [step, functional_step])
def test_S16_no_copy_of_a_whole_cache_is_left_and_the_caches_are_right(form: Any) -> None:
    counts: list[tuple[int, int]] = []

    def transform(gm: torch.fx.GraphModule) -> None:
        Pipeline(default_passes(), verify=True).run(gm)
        counts.append((len(copies(gm, at_least_bytes=CACHE_BYTES)), len(gm.graph.nodes)))

    mine, eager = inputs(), inputs()
    torch._dynamo.reset()
    compiled: Any = torch.compile(form, backend=backend_of(transform), fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*mine), step(*eager), rtol=0, atol=0)
    torch.testing.assert_close(mine, eager, rtol=0, atol=0)
    assert counts
    assert counts[0][0] == 0


def test_S16_the_bytes_of_both_caches_are_saved() -> None:
    gm = functional_graph(functional_step, *inputs())
    before = copies(gm, at_least_bytes=CACHE_BYTES)
    Pipeline(default_passes(), verify=True).run(gm, copied(inputs()))
    after = copies(gm, at_least_bytes=CACHE_BYTES)
    print(f"{sum(c.bytes_moved for c in before)} bytes in {len(before)} copies -> {len(after)}")
    assert sum(c.bytes_moved for c in before) >= 2 * CACHE_BYTES
    assert after == ()


def test_an_operator_that_hides_its_writes_is_kept_and_its_memory_is_left_alone() -> None:
    from torch.fx import Graph, GraphModule

    graph = Graph()
    nodes = [graph.placeholder(f"x{i}") for i in range(7)]
    graph.call_function(torch.ops.npu.npu_kv_rmsnorm_rope_cache.default, tuple(nodes))
    graph.output((graph.call_function(torch.ops.aten.sum.default, (nodes[5],)),))
    gm = GraphModule(torch.nn.Module(), graph)
    report = Pipeline(default_passes(), verify=True).run(gm, inputs())
    assert not any(s.rolled_back for s in report.steps)
    assert [n for n in gm.graph.nodes if "rope_cache" in str(n.target)]
    facts = Facts(gm)
    assert nodes[5] in facts.mutated_inputs()
