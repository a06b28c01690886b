"""cann-recipes, and programs made after it: one function compiles a forward, in three ways."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from air_backend.inference.errors import CacheWarning
from as_eager import assert_same, same_as_eager


def compiled_forward(
    forward: Any, mode: str, *, cache: Path | None = None, dynamic: bool = False, superkernel: bool = False
) -> Any:
    """The forward of a model as the recipes compile it."""
    import torchair  # type: ignore[import-not-found]

    importlib.import_module("torchair.ge_concrete_graph.ge_converter.experimental.patch_for_hcom_allreduce")
    torchair.patch_for_hcom()
    if mode == "npugraph_ex":
        import npugraph_ex  # type: ignore[import-not-found]

        options: dict[str, Any] = {
            "frozen_parameter": True,
            "static_kernel_compile": False,
            "super_kernel_optimize": superkernel,
        }
        if cache is not None:
            return npugraph_ex.inference.cache_compile(
                forward, cache_dir=str(cache), dynamic=dynamic, options=options
            )
        return torch.compile(forward, backend="npugraph_ex", fullgraph=True, dynamic=dynamic, options=options)
    config = torchair.configs.compiler_config.CompilerConfig()
    config.experimental_config.frozen_parameter = True
    config.experimental_config.tiling_schedule_optimize = True
    config.experimental_config.topology_sorting_strategy = "StableRDFS"
    captured = mode == "acl_graph"
    if captured:
        config.mode = "reduce-overhead"
    if cache is not None:
        return torchair.inference.cache_compile(
            forward,
            cache_dir=str(cache),
            config=config,
            dynamic=captured,
            fullgraph=True,
            ge_cache=not captured,
        )
    backend = torchair.get_npu_backend(compiler_config=config)
    return torch.compile(forward, dynamic=captured, fullgraph=True, backend=backend)


MODES = ("ge_graph", "acl_graph", "npugraph_ex")


class Decoder(nn.Module):
    """A layer with a cache of keys and values in the data of its call."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48, bias=False)
        self.head = nn.Linear(16, 10, bias=False)

    def forward(
        self, x: Tensor, position: Tensor, past: tuple[Tensor, Tensor], mask: Tensor | None = None
    ) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        keys, values = past
        keys.index_copy_(1, position, k)
        values.index_copy_(1, position, v)
        scores = q @ keys.transpose(1, 2)
        if mask is not None:
            scores = scores + mask
        result: Tensor = self.head(torch.softmax(scores, -1) @ values)
        return result

    def decode(self, x: Tensor, position: Tensor, past: tuple[Tensor, Tensor]) -> Tensor:
        return self.forward(x, position, past)

    def prefill(self, x: Tensor, position: Tensor, past: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        return self.forward(x, position, past, mask)


def past(device: str = "cpu") -> tuple[Tensor, Tensor]:
    return torch.zeros(2, 8, 16, device=device), torch.zeros(2, 8, 16, device=device)


@pytest.fixture(autouse=True)
def parameters_as_the_recipes_want_them() -> Any:
    with torch._dynamo.config.patch(inline_inbuilt_nn_modules=False):
        yield


@pytest.mark.parametrize("mode", MODES)
def test_cann_recipes_decode_step_by_step(mode: str) -> None:
    model = Decoder().eval()
    run = compiled_forward(model.decode, mode)
    mine, theirs = past(), past()
    with torch.no_grad():
        for step in range(4):
            x, position = torch.randn(2, 1, 16), torch.tensor([step])
            assert_same(run(x, position, mine), model.decode(x, position, theirs))
            assert_same(mine, theirs)


@pytest.mark.skipif(torch.__version__ >= "2.12", reason="files hold the parameters")
def test_cann_recipes_compile_decode_in_each_process_where_torch_leaves_parameters_out(
    tmp_path: Path,
) -> None:
    model = Decoder().eval()
    torch._dynamo.reset()
    run = compiled_forward(model.decode, "acl_graph", cache=tmp_path)
    with pytest.warns(CacheWarning, match="inline_inbuilt_nn_modules is off"):
        same_as_eager(run, model.decode, (torch.randn(2, 1, 16), torch.tensor([3]), past()))


@pytest.mark.skipif(torch.__version__ < "2.12", reason="files of torch 2.11 would lack the parameters")
@pytest.mark.parametrize("mode", MODES)
def test_cann_recipes_keep_the_compiled_decode(mode: str, tmp_path: Path) -> None:
    model = Decoder().eval()
    for _ in range(2):  # the second finds the files
        torch._dynamo.reset()
        run = compiled_forward(model.decode, mode, cache=tmp_path)
        same_as_eager(run, model.decode, (torch.randn(2, 1, 16), torch.tensor([3]), past()))
    assert [file for file in tmp_path.rglob("*") if file.is_file()]


def test_cann_recipes_hold_prefill_and_decode_as_attributes_of_the_model(tmp_path: Path) -> None:
    import torchair

    class Model(Decoder):
        def __init__(self) -> None:
            super().__init__()
            config = torchair.CompilerConfig()
            config.experimental_config.frozen_parameter = True
            self.cached_decode = torchair.inference.cache_compile(
                self.decode, config=config, cache_dir=str(tmp_path)
            )
            self.cached_prefill = torchair.inference.cache_compile(
                self.prefill, config=config, cache_dir=str(tmp_path)
            )

    model = Model().eval()
    mine, theirs = past(), past()
    with torch.no_grad():
        prompt = torch.randn(2, 3, 16), torch.arange(3)
        mask = torch.zeros(3, 8)
        assert_same(model.cached_prefill(*prompt, mine, mask), model.prefill(*prompt, theirs, mask))
        token = torch.randn(2, 1, 16), torch.tensor([3])
        assert_same(model.cached_decode(*token, mine), model.decode(*token, theirs))
    assert_same(mine, theirs)


def test_cann_recipes_mark_the_inputs_of_a_step_static() -> None:
    model = Decoder().eval()
    run = compiled_forward(model, "acl_graph")
    data = SimpleNamespace(x=torch.randn(2, 1, 16), position=torch.tensor([0]), past=past())
    for tensor in (data.x, data.position, *data.past):
        torch._dynamo.mark_static(tensor)
    same_as_eager(run, model, (data.x, data.position, data.past), repeat=3)


def test_cann_recipes_read_the_logits_of_a_draft_model_after_those_of_the_main_one() -> None:
    main, draft = Decoder().eval(), Decoder().eval()
    runs = [compiled_forward(model.decode, "acl_graph") for model in (main, draft)]
    x, position = torch.randn(2, 1, 16), torch.tensor([1])
    with torch.no_grad():
        first, second = (run(x, position, past()) for run in runs)
        again = runs[0](x + 1, position, past())
        assert_same(first, main.decode(x, position, past()))
        assert_same(second, draft.decode(x, position, past()))
        assert_same(again, main.decode(x + 1, position, past()))


@pytest.mark.npu("the program of cann-recipes is for NPUs")
@pytest.mark.parametrize("numbers", [("4", "8"), (4, 8)])
def test_cann_recipes_share_the_cores_between_two_streams(numbers: tuple[Any, Any]) -> None:
    import torchair

    w1, w2 = torch.randn(8, 8, device="npu"), torch.randn(8, 8, device="npu")

    def block(x: Tensor) -> tuple[Tensor, Tensor]:
        with torchair.scope.limit_core_num(*numbers):
            one = x @ w1
        with torchair.scope.npu_stream_switch("1"), torchair.scope.limit_core_num(*numbers):
            other = x @ w2
        return one, other

    same_as_eager(compiled_forward(block, "ge_graph"), block, (torch.randn(4, 8, device="npu"),))


@pytest.mark.parametrize("options", ["", "stream-fusion=1"])
def test_cann_recipes_put_a_layer_into_one_super_kernel(options: str) -> None:
    import torchair

    def layer(x: Tensor) -> Tensor:
        with torchair.scope.super_kernel("decode_layer", options):
            x = torch.relu(x @ x.T) @ x
        return x + 1

    same_as_eager(compiled_forward(layer, "ge_graph"), layer, (torch.randn(4, 8),))


@pytest.mark.npu("the program of cann-recipes is for NPUs")
@pytest.mark.parametrize("mode", MODES)
def test_cann_recipes_decode_on_the_device(mode: str) -> None:
    model = Decoder().eval().to("npu")
    run = compiled_forward(model.decode, mode)
    calls = [(torch.randn(2, 1, 16).to("npu"), torch.tensor([n]).to("npu"), past("npu")) for n in (0, 5)]
    same_as_eager(run, model.decode, *calls)


@pytest.mark.npu("the program of cann-recipes is for NPUs")
def test_cann_recipes_attend_by_the_fused_operator_of_torchair() -> None:
    import torchair

    def attend(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
        found: Tensor
        found, _ = torchair.ops.npu_fused_infer_attention_score(
            q, k, v, num_heads=4, scale=0.25, input_layout="BSH", actual_seq_lengths_kv=lengths
        )
        return found

    def eager(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
        import torch_npu

        found: Tensor
        found, _ = torch_npu.npu_fused_infer_attention_score(
            q, k, v, num_heads=4, scale=0.25, input_layout="BSH", actual_seq_lengths_kv=lengths.tolist()
        )
        return found

    inputs = [torch.randn(2, length, 64, device="npu").half() for length in (1, 16, 16)]
    same_as_eager(attend, eager, (*inputs, torch.tensor([5, 9])))
