"""S16: operators with several results write into caches that nobody needs as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx import GraphModule

from air_fxpasses import Pipeline, default_passes
from air_fxpasses.npu_ops.samples import samples
from air_fxpasses.tables import twin_of
from air_fxpasses.testing import compiled_graph, copied, difference, functional_graph, run_graph

npu = torch.ops.npu
CASES = {"npu_add_rms_norm_v2": (0, 1), "npu_kv_rmsnorm_rope_cache_v2": (5, 6), "npu_mla_prolog_v3": (9, 10)}


def sample_of(name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    found = next(s for s in samples() if s.operator == f"{name}_functional")
    return found.args, {k: v for k, v in found.kwargs.items() if not isinstance(v, torch.Tensor)}


def optimised(
    function: Callable[..., Any], *inputs: torch.Tensor, trace: Callable[..., GraphModule] = compiled_graph
) -> tuple[list[str], list[str]]:
    gm = trace(function, *inputs)
    assert len([n for n in gm.graph.nodes if n.op == "placeholder"]) == len(inputs)
    eager = run_graph(gm, copied(inputs))
    report = Pipeline(default_passes(lambda one: one.name != "fuse_patterns")).run(gm, inputs)
    assert difference(eager, run_graph(gm, copied(inputs))) is None
    ops = [str(n.target) for n in gm.graph.nodes if n.op == "call_function"]
    return ops, [r.reason for r in report.refusals]


def call(name: str, suffix: str) -> tuple[Callable[..., Any], tuple[torch.Tensor, ...]]:
    """The operator as a function of tensors alone, and tensors for it."""
    args, options = sample_of(name)
    op = getattr(npu, f"{name}{suffix}")
    if name != "npu_mla_prolog_v3":
        return (lambda *tensors: op(*tensors, **options)), args
    return (lambda *tensors: op(*tensors[:-1], cache_index=tensors[-1], **options)), (
        *args,
        torch.arange(4, 7),
    )


@pytest.mark.parametrize("name", CASES)
def test_S16_write_into_inputs_stays_one_write(name: str) -> None:
    f, inputs = call(name, "")

    def step(*tensors: torch.Tensor) -> Any:
        result = f(*tensors)
        return (result if isinstance(result, torch.Tensor) else result[0]) + 1

    ops, _ = optimised(step, *inputs)
    assert f"npu.{name}.default" in ops
    assert "aten.copy_.default" not in ops
    assert "aten.clone.default" not in ops


@pytest.mark.parametrize("name", CASES)
def test_S16_functional_form_copied_back_becomes_the_write(name: str) -> None:
    f, inputs = call(name, "_functional")

    def step(*tensors: torch.Tensor) -> Any:
        results = f(*tensors)
        for position, value in zip(CASES[name], results[-2:], strict=True):
            tensors[position].copy_(value)
        return results[0] + 1

    ops, _ = optimised(step, *inputs)
    assert f"npu.{name}.default" in ops
    assert "aten.copy_.default" not in ops


@pytest.mark.parametrize("name", CASES)
def test_S16_functional_form_on_intermediate_values_writes_there(name: str) -> None:
    f, inputs = call(name, "_functional")

    def step(*tensors: torch.Tensor) -> Any:
        fresh = [t + 1 if i in CASES[name] else t for i, t in enumerate(tensors)]
        return tuple(r + 1 for r in f(*fresh)[-2:])

    ops, _ = optimised(step, *inputs, trace=functional_graph)
    assert f"npu.{name}.default" in ops
    assert f"npu.{name}_functional.default" not in ops


@pytest.mark.parametrize("name", CASES)
def test_W22_the_old_value_read_later_is_kept(name: str) -> None:
    f, inputs = call(name, "_functional")

    def step(*tensors: torch.Tensor) -> Any:
        fresh = [t + 1 if i in CASES[name] else t for i, t in enumerate(tensors)]
        results = f(*fresh)[-2:]
        old = [fresh[i] * 2 for i in CASES[name]]
        return (*(r + 1 for r in results), *old)

    ops, reasons = optimised(step, *inputs, trace=functional_graph)
    assert f"npu.{name}.default" not in ops
    assert any("the old value is read later" in r for r in reasons), reasons


@pytest.mark.parametrize("name", ["scatter_update", "npu_scatter_nd_update", "npu_quant_scatter"])
def test_S15_scatter_into_a_cache_stays_one_write(name: str) -> None:
    sample = next(s for s in samples() if s.operator == f"{name}_")
    tensors = [a for a in sample.args if isinstance(a, torch.Tensor)]
    numbers = sample.args[len(tensors) :]

    def step(*given: torch.Tensor) -> Any:
        getattr(npu, f"{name}_")(*given, *numbers)
        return given[0].float().sum()

    ops, _ = optimised(step, *tensors)
    assert ops[0] == f"npu.{name}_.default"
    assert "aten.copy_.default" not in ops


def test_decode_step_with_latent_cache_copies_no_cache() -> None:
    """Layers of latent attention, each updating its two caches and reading one of them."""
    _, (kv, gamma, cos, sin, index, *first) = call("npu_kv_rmsnorm_rope_cache_v2", "")
    caches = [cache.clone() for _ in range(3) for cache in first]

    def step(kv: torch.Tensor, gamma: Any, cos: Any, sin: Any, index: Any, *caches: torch.Tensor) -> Any:
        total = kv.sum()
        for k_cache, ckv_cache in zip(caches[::2], caches[1::2], strict=True):
            npu.npu_kv_rmsnorm_rope_cache_v2(kv, gamma, cos, sin, index, k_cache, ckv_cache)
            total = total + ckv_cache.sum() + k_cache.sum()
        return total

    everything = (kv, gamma, cos, sin, index, *caches)
    before = compiled_graph(step, *everything)
    copies = [n for n in before.graph.nodes if n.target is torch.ops.aten.copy_.default]
    assert len(copies) == len(caches)
    ops, _ = optimised(step, *everything)
    assert ops.count("npu.npu_kv_rmsnorm_rope_cache_v2.default") == 3
    assert not [op for op in ops if "copy" in op or "clone" in op or "functional" in op]


@pytest.mark.parametrize("name", CASES)
def test_S16_twins_are_in_the_table(name: str) -> None:
    twin = twin_of(getattr(npu, f"{name}_functional").default)
    assert twin is not None
    assert twin.inplace is getattr(npu, name).default
