"""Models of Hugging Face, tiny and with random weights, equal to eager with static and with dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

from air_geir import compile_graph

transformers = pytest.importorskip("transformers")

TEXT: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 50,
    "max_position_embeddings": 32,
}  # fmt: skip
Model = Callable[[], Any]


def llama() -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(num_key_value_heads=2, **TEXT))


def qwen2() -> Any:
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(num_key_value_heads=2, **TEXT))


def bert() -> Any:
    return transformers.BertModel(transformers.BertConfig(**TEXT))


def vit() -> Any:
    config = transformers.ViTConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=16,
        patch_size=4,
    )
    return transformers.ViTModel(config)


def t5() -> Any:
    config = transformers.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=50)
    return transformers.T5ForConditionalGeneration(config)


def tokens(rows: int, length: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(0, 50, (rows, length)), "use_cache": False}


def tokens_without_cache_switch(rows: int, length: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(0, 50, (rows, length))}


def images(rows: int, length: int) -> dict[str, Any]:
    return {"pixel_values": torch.randn(rows, 3, 16, 16)}


def pairs(rows: int, length: int) -> dict[str, Any]:
    ids = torch.randint(0, 50, (rows, length))
    return {"input_ids": ids, "decoder_input_ids": ids[:, : length - 2], "use_cache": False}


MODELS: list[tuple[Model, Callable[[int, int], dict[str, Any]]]] = [
    (llama, tokens), (qwen2, tokens), (bert, tokens_without_cache_switch), (vit, images), (t5, pairs)
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


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(("make", "inputs"), MODELS, ids=[m.__name__ for m, _ in MODELS])
def test_a_model_equals_eager(
    make: Model, inputs: Callable[[int, int], dict[str, Any]], dynamic: bool
) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    model: Any = make().eval()
    run: Any = torch.compile(model, backend=backend(), dynamic=dynamic)
    with torch.no_grad():
        for rows, length in [(2, 7), (3, 9)] if dynamic else [(2, 7)]:
            given = inputs(rows, length)
            torch.testing.assert_close(run(**given)[0], model(**given)[0], atol=2e-5, rtol=1e-4)


def test_a_static_cache_is_filled_in_place_step_by_step() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = llama().eval()
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
    assert len(decode.program.assigned) >= 4
    copies = [n for n in decode.program.graph.of_type("TensorMove") if n.output.desc.shape == (2, 2, 16, 8)]
    assert copies == []
