"""Models of Hugging Face, tiny and with random weights, as one Ascend graph through `max-autotune`, equal to eager.

On the CPU the reference engine runs the graph; the tests marked `npu` take the Graph Engine, on a device or air-sim.
CI runs a few of them with one layer; `-m slow` runs every model with two layers, with static and with dynamic sizes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from air_backend import CompilerConfig, _records, get_npu_backend
from air_backend._ground import best_ground
from model_families import FAMILIES

SIZES = ((2, 7), (3, 9))
LANGUAGE = ("llama", "qwen2")
BOTH = pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
CPU = torch.device("cpu")


def compiled(model: Any, dynamic: bool | None) -> Callable[..., Any]:
    config = CompilerConfig()
    config.set("mode", "max-autotune")
    backend = get_npu_backend(compiler_config=config)
    made: Callable[..., Any] = torch.compile(model, backend=backend, dynamic=dynamic, fullgraph=True)
    return made


def moved(given: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    return {name: v.to(device) if isinstance(v, Tensor) else v for name, v in given.items()}


def executables() -> list[Any]:
    """What the backend compiled and is still in use."""
    gc.collect()
    return [run for _, run in _records.alive()]


def built(name: str, layers: int) -> Any:
    """With the attention of the model's own code: torch_npu's fused one fixes sizes while it is traced."""
    torch.manual_seed(0)
    model = FAMILIES[name].build(layers).eval()
    model.set_attn_implementation("eager")
    return model


def check_call(
    name: str, layers: int, dynamic: bool, device: torch.device, engine: str = "reference"
) -> None:
    """One graph, of an engine that belongs to the device, gives what the model gives on the CPU."""
    before = executables()
    model = built(name, layers)
    calls = [FAMILIES[name].inputs(*size) for size in (SIZES if dynamic else SIZES[:1])]
    with torch.no_grad():
        expected = [model(**given)[0] for given in calls]
        run = compiled(model.to(device), dynamic)
        for given, want in zip(calls, expected, strict=True):
            torch.testing.assert_close(run(**moved(given, device))[0].cpu(), want, atol=2e-5, rtol=1e-4)
    made = [e for e in executables() if e not in before]
    assert [(e.engine, e.program.is_static) for e in made] == [(engine, not dynamic)]


def check_cache(name: str, layers: int, device: torch.device) -> None:
    """Decoding writes the keys and values where they are: same addresses, an Assign each, and no copy of a cache."""
    before = executables()
    model = built(name, layers)
    cache: Any
    held: Any
    cache, held = (transformers.StaticCache(config=model.config, max_cache_len=16) for _ in range(2))
    steps = [(torch.randint(0, 50, (2, 1)), torch.tensor([at])) for at in range(3)]
    with torch.no_grad():
        expected = [model(input_ids=i, past_key_values=cache, cache_position=at).logits for i, at in steps]
        model = model.to(device)
        first, *rest = [(ids.to(device), at.to(device)) for ids, at in steps]
        results = [model(input_ids=first[0], past_key_values=held, cache_position=first[1]).logits]
        addresses = [t.data_ptr() for layer in held.layers for t in (layer.keys, layer.values)]
        run = compiled(model, None)
        results += [run(input_ids=i, past_key_values=held, cache_position=at).logits for i, at in rest]
    for result, want in zip(results, expected, strict=True):
        torch.testing.assert_close(result.cpu(), want, atol=2e-5, rtol=1e-4)
    for mine, eager in zip(held.layers, cache.layers, strict=True):
        torch.testing.assert_close(mine.keys.cpu(), eager.keys)
        torch.testing.assert_close(mine.values.cpu(), eager.values)
    assert [t.data_ptr() for layer in held.layers for t in (layer.keys, layer.values)] == addresses
    (decode,) = (e for e in executables() if e not in before)
    assert len(decode.program.assigned) >= len(addresses) == 2 * layers
    shape = tuple(held.layers[0].keys.shape)
    assert [n for n in decode.program.graph.of_type("TensorMove") if n.output.desc.shape == shape] == []


def test_S04_a_layer_of_bert_runs_as_one_ascend_graph_of_dynamic_sizes() -> None:
    check_call("bert", 1, True, CPU)


def test_S04_decoding_writes_the_cache_in_place() -> None:
    check_cache("llama", 1, CPU)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("name", FAMILIES)
def test_S04_a_model_runs_as_one_ascend_graph(name: str, dynamic: bool) -> None:
    check_call(name, 2, dynamic, CPU)


@pytest.mark.slow
@pytest.mark.parametrize("name", LANGUAGE)
def test_S04_decoding_with_two_layers_writes_both_caches_in_place(name: str) -> None:
    check_cache(name, 2, CPU)


@pytest.mark.npu("max-autotune does not serve CUDA tensors")
def test_S04_decoding_on_the_graph_engine_writes_the_cache_in_place() -> None:
    check_cache("llama", 1, best_ground().device)


@pytest.mark.slow
@pytest.mark.npu("max-autotune does not serve CUDA tensors")
@BOTH
@pytest.mark.parametrize("name", FAMILIES)
def test_S04_a_model_runs_as_one_graph_of_the_graph_engine(
    name: str, dynamic: bool, device_engine: str
) -> None:
    check_call(name, 2, dynamic, best_ground().device, device_engine)


@pytest.mark.slow
@pytest.mark.npu("max-autotune does not serve CUDA tensors")
@pytest.mark.parametrize("name", LANGUAGE)
def test_S04_decoding_with_two_layers_on_the_graph_engine_writes_both_caches_in_place(name: str) -> None:
    check_cache(name, 2, best_ground().device)
