"""Models of Hugging Face, tiny and with random weights, equal to eager with static and with dynamic sizes.

On the CPU the reference engine runs them; the tests marked `npu` take the Graph Engine, on a device or air-sim.
Models are here with one layer, each in one way; `-m slow` runs all of them with two, in every way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

from air_config import CompilerConfig, Context, resolve
from air_geir import Executable, compile_graph

transformers = pytest.importorskip("transformers")

TEXT: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "vocab_size": 50,
    "max_position_embeddings": 32,
}  # fmt: skip
Model = Callable[[int], Any]
"""Makes a model of so many layers."""


def llama(layers: int) -> Any:
    config = transformers.LlamaConfig(num_hidden_layers=layers, num_key_value_heads=2, **TEXT)
    return transformers.LlamaForCausalLM(config)


def qwen2(layers: int) -> Any:
    config = transformers.Qwen2Config(num_hidden_layers=layers, num_key_value_heads=2, **TEXT)
    return transformers.Qwen2ForCausalLM(config)


def bert(layers: int) -> Any:
    return transformers.BertModel(transformers.BertConfig(num_hidden_layers=layers, **TEXT))


def vit(layers: int) -> Any:
    config = transformers.ViTConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        image_size=16,
        patch_size=4,
    )
    return transformers.ViTModel(config)


def t5(layers: int) -> Any:
    config = transformers.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=layers, num_heads=4, vocab_size=50)
    return transformers.T5ForConditionalGeneration(config)


def tokens(rows: int, length: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(0, 50, (rows, length)), "use_cache": False}


def tokens_alone(rows: int, length: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(0, 50, (rows, length))}


def images(rows: int, length: int) -> dict[str, Any]:
    return {"pixel_values": torch.randn(rows, 3, 16, 16)}


def pairs(rows: int, length: int) -> dict[str, Any]:
    ids = torch.randint(0, 50, (rows, length))
    return {"input_ids": ids, "decoder_input_ids": ids[:, : length - 2], "use_cache": False}


Inputs = Callable[[int, int], dict[str, Any]]
MODELS: list[tuple[Model, Inputs]] = [
    (llama, tokens), (qwen2, tokens), (bert, tokens_alone), (vit, images), (t5, pairs)
]  # fmt: skip


def compiler(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    run = compile_graph(gm, inputs, engine="reference")

    def boxed(args: list[Any]) -> Any:
        return run(*args)

    boxed._boxed_call = True  # type: ignore[attr-defined]  # AOTAutograd's mark for functions that take a list
    return boxed


def backend() -> Any:
    return aot_autograd(
        fw_compiler=compiler, inference_compiler=compiler, keep_inference_input_mutations=True
    )


def calls_of(inputs: Inputs, dynamic: bool | None) -> list[dict[str, Any]]:
    """The inputs of a call, or of two of other sizes."""
    return [inputs(2, 7)] if dynamic is False else [inputs(2, 7), inputs(3, 9)]


def marked(calls: list[dict[str, Any]], dynamic: bool | None) -> list[dict[str, Any]]:
    """Marks the sizes that differ where nothing else says that they are symbols.

    `dynamic=True` makes many more symbols, and takes twice the time.
    """
    for tensors in zip(*(call.values() for call in calls), strict=True) if dynamic is None else ():
        for tensor in tensors:
            for dim in range(tensor.dim()) if isinstance(tensor, torch.Tensor) else ():
                if len({other.shape[dim] for other in tensors}) > 1:
                    torch._dynamo.mark_dynamic(tensor, dim)
    return calls


def check(make: Model, inputs: Inputs, dynamic: bool | None, layers: int) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    model: Any = make(layers).eval()
    run: Any = torch.compile(model, backend=backend(), dynamic=dynamic)
    with torch.no_grad():
        for given in marked(calls_of(inputs, dynamic), dynamic):
            torch.testing.assert_close(run(**given)[0], model(**given)[0], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("make", "inputs", "dynamic"), [pytest.param(qwen2, tokens, False, marks=pytest.mark.slow), (t5, pairs, False),
                                    (bert, tokens_alone, None), (vit, images, None)],
    ids=["qwen2", "t5", "bert-dynamic", "vit-dynamic"],
)  # fmt: skip
def test_a_layer_of_a_model_equals_eager(make: Model, inputs: Inputs, dynamic: bool | None) -> None:
    check(make, inputs, dynamic, 1)


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(("make", "inputs"), MODELS, ids=[m.__name__ for m, _ in MODELS])
def test_a_model_equals_eager(make: Model, inputs: Inputs, dynamic: bool) -> None:
    check(make, inputs, dynamic, 2)


def test_a_static_cache_is_filled_in_place_step_by_step() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = llama(1).eval()
    caches = [transformers.StaticCache(config=model.config, max_cache_len=16) for _ in range(2)]
    made: list[Any] = []

    def watching(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        made.append(compile_graph(gm, inputs, engine="reference"))
        run = made[-1]

        def boxed(args: list[Any]) -> Any:
            return run(*args)

        boxed._boxed_call = True  # type: ignore[attr-defined]  # AOTAutograd's mark for functions that take a list
        return boxed

    compiled = torch.compile(
        model,
        backend=aot_autograd(
            fw_compiler=watching, inference_compiler=watching, keep_inference_input_mutations=True
        ),
    )
    with torch.no_grad():
        for step, length in enumerate((5, 1, 1)):
            ids = torch.randint(0, 50, (2, length))
            at = torch.arange(length) + (0 if step == 0 else 4 + step)
            both: tuple[Any, Any] = (compiled, model)
            results = [
                f(input_ids=ids, past_key_values=c, cache_position=at).logits
                for f, c in zip(both, caches, strict=True)
            ]
            torch.testing.assert_close(*results, atol=2e-5, rtol=1e-4)
    for mine, eager in zip(caches[0].layers, caches[1].layers, strict=True):
        torch.testing.assert_close(mine.keys, eager.keys)
        torch.testing.assert_close(mine.values, eager.values)
    decode = made[-1]
    assert len(decode.program.assigned) >= 2
    copies = [n for n in decode.program.graph.of_type("TensorMove") if n.output.desc.shape == (2, 2, 16, 8)]
    assert copies == []


ON_DEVICE = ["torchair_extension", "ge_session"]
OF_FIXED_SIZES = [*ON_DEVICE, "atc"]


def on_device(made: list[Executable], engine: str = "auto") -> Any:
    """A backend for graphs of NPU tensors that keeps what it compiled."""
    settings = resolve(CompilerConfig(), Context(device="npu"))

    def compiled(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        run = compile_graph(gm, inputs, settings=settings, engine=engine)
        made.append(run)

        def boxed(args: list[Any]) -> Any:
            return run(*args)

        boxed._boxed_call = True  # type: ignore[attr-defined]  # AOTAutograd's mark for functions that take a list
        return boxed

    return aot_autograd(
        fw_compiler=compiled, inference_compiler=compiled, keep_inference_input_mutations=True
    )


def small(make: Model) -> Any:
    """One layer, and the attention of the model's own code: torch_npu's fused one fixes sizes while it is traced."""
    model: Any = make(1).eval()
    model.set_attn_implementation("eager")
    return model


def check_on_device(make: Model, inputs: Inputs, dynamic: bool | None, engine: str) -> None:
    pytest.importorskip("torch_npu")
    torch.manual_seed(0)
    torch._dynamo.reset()
    made: list[Executable] = []
    model = small(make)
    calls = calls_of(inputs, dynamic)
    with torch.no_grad():
        expected = [model(**given)[0] for given in calls]
        run: Any = torch.compile(
            model.to("npu"), backend=on_device(made, engine), dynamic=dynamic, fullgraph=True
        )
        moved = [
            {k: v.to("npu") if isinstance(v, torch.Tensor) else v for k, v in given.items()}
            for given in calls
        ]
        for given, want in zip(marked(moved, dynamic), expected, strict=True):
            torch.testing.assert_close(run(**given)[0].cpu(), want, atol=2e-5, rtol=1e-4)
    assert [(e.engine, e.program.is_static) for e in made] == [(engine, dynamic is False)]


@pytest.mark.sampled(2)
@pytest.mark.npu
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("engine", ON_DEVICE)
def test_a_layer_of_a_model_of_dynamic_sizes_on_the_graph_engine_equals_eager(engine: str) -> None:
    check_on_device(vit, images, None, engine)


@pytest.mark.npu
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_N16_a_layer_of_a_model_as_an_offline_model_equals_eager() -> None:
    check_on_device(qwen2, tokens, False, "atc")


@pytest.mark.slow
@pytest.mark.npu
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    ("engine", "dynamic"),
    [*((engine, False) for engine in OF_FIXED_SIZES), *((engine, True) for engine in ON_DEVICE)],
)
@pytest.mark.parametrize(("make", "inputs"), MODELS, ids=[m.__name__ for m, _ in MODELS])
def test_every_model_on_the_graph_engine_equals_eager(
    make: Model, inputs: Inputs, dynamic: bool, engine: str
) -> None:
    check_on_device(make, inputs, dynamic, engine)


@pytest.mark.npu
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("make", [llama, pytest.param(qwen2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "engine", [ON_DEVICE[0], *(pytest.param(each, marks=pytest.mark.slow) for each in OF_FIXED_SIZES[1:])]
)
def test_a_cache_on_the_device_is_filled_in_place_without_a_copy(make: Model, engine: str) -> None:
    pytest.importorskip("torch_npu")
    torch.manual_seed(0)
    torch._dynamo.reset()
    made: list[Executable] = []
    model = small(make)
    expected, cache = [], transformers.StaticCache(config=model.config, max_cache_len=16)
    steps = [(torch.randint(0, 50, (2, 1)), torch.tensor([at])) for at in range(3)]
    with torch.no_grad():
        for ids, at in steps:
            expected.append(model(input_ids=ids, past_key_values=cache, cache_position=at).logits)
        moved = model.to("npu")
        held = transformers.StaticCache(config=model.config, max_cache_len=16)
        first, *rest = [(ids.to("npu"), at.to("npu")) for ids, at in steps]
        results = [moved(input_ids=first[0], past_key_values=held, cache_position=first[1]).logits]
        addresses = [t.data_ptr() for layer in held.layers for t in (layer.keys, layer.values)]
        run: Any = torch.compile(moved, backend=on_device(made, engine), fullgraph=True)
        results += [run(input_ids=i, past_key_values=held, cache_position=at).logits for i, at in rest]
    for result, want in zip(results, expected, strict=True):
        torch.testing.assert_close(result.cpu(), want, atol=2e-5, rtol=1e-4)
    for mine, eager in zip(held.layers, cache.layers, strict=True):
        torch.testing.assert_close(mine.keys.cpu(), eager.keys)
        torch.testing.assert_close(mine.values.cpu(), eager.values)
    assert [t.data_ptr() for layer in held.layers for t in (layer.keys, layer.values)] == addresses
    (decode,) = made
    assert len(decode.program.assigned) >= len(addresses)
    copies = [n for n in decode.program.graph.of_type("TensorMove") if n.output.desc.shape == (2, 2, 16, 8)]
    assert copies == []
