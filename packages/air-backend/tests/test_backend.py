"""The backend is what `torch.compile` expects, in every way a user can name it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import BackendCompilerFailed
from torch.fx.experimental.proxy_tensor import make_fx

import air_backend
from air_backend import CompilerConfig, _records, compile_fx, get_compiler, get_npu_backend
from air_backend._backend import effective_config
from air_backend.errors import NoDecomposition, NotAGraphModule, OptionsOfWrongType, UnknownMode

MODES = ("reduce-overhead", "max-autotune")


def config(mode: str) -> CompilerConfig:
    made = CompilerConfig()
    made.set("mode", mode)
    return made


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_S01_S03_S04_a_backend_from_get_npu_backend_computes_what_eager_computes(
    mode: str, dynamic: bool
) -> None:
    model = mlp()
    compiled = torch.compile(model, backend=get_npu_backend(compiler_config=config(mode)), dynamic=dynamic)
    with torch.no_grad():
        for rows in (2, 3, 2, 5):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize("mode", [None, *MODES])
def test_A23_the_entry_point_takes_a_mode(mode: str | None) -> None:
    model, x = mlp(), torch.randn(2, 8)
    compiled = torch.compile(model, backend="air", mode=mode)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    assert _records.alive()[-1][0].executor == (mode or "max-autotune")


def test_A23_the_entry_point_takes_options_by_flat_and_by_dotted_name() -> None:
    options: dict[str, Any] = {"mode": "reduce-overhead", "clone_output": True, "air.warmup": 1}
    compiled = torch.compile(mlp(), backend="air", options=options)
    with torch.no_grad():
        compiled(torch.randn(2, 8))
    settings = _records.alive()[-1][0].settings
    assert settings.debug.aclgraph.enable_output_clone
    assert settings.air.warmup == 1


def test_options_of_torch_compile_go_on_top_of_the_configuration_for_one_compilation() -> None:
    ours = config("reduce-overhead")
    backend = get_npu_backend(compiler_config=ours)
    with torch.no_grad():
        torch.compile(mlp(), backend=backend, options={"debug.run_eagerly": True})(torch.randn(2, 8))
        assert _records.alive()[-1][0].executor == "run_eagerly"
    assert not ours.debug.run_eagerly


def test_W21_options_of_one_model_do_not_reach_another() -> None:
    with torch.no_grad():
        first = torch.compile(mlp(), backend="air", options={"mode": "reduce-overhead", "clone_output": True})
        first(torch.randn(2, 8))
        torch._dynamo.reset()
        second = torch.compile(mlp(), backend="air", options={"mode": "reduce-overhead"})
        second(torch.randn(2, 8))
    assert not _records.alive()[-1][0].settings.debug.aclgraph.enable_output_clone


def test_the_entry_point_is_listed_once_and_importing_torch_does_not_import_it() -> None:
    code = (
        "import sys, torch._dynamo as d; names = d.list_backends();"
        "assert names.count('air') == 1, names; assert 'air_backend' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_mode_is_refused_with_the_modes_there_are() -> None:
    with pytest.raises(BackendCompilerFailed, match="reduce-overhead") as failure:
        torch.compile(mlp(), backend="air", mode="turbo")(torch.randn(2, 8))
    assert isinstance(failure.value.inner_exception, UnknownMode)


def test_options_of_the_wrong_type_are_refused() -> None:
    options: Any = ["mode"]
    with pytest.raises(BackendCompilerFailed) as failure:
        torch.compile(mlp(), backend="air", options=options)(torch.randn(2, 8))
    assert isinstance(failure.value.inner_exception, OptionsOfWrongType)


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(BackendCompilerFailed, match="clone_output"):
        torch.compile(mlp(), backend="air", options={"clone_outputs": True})(torch.randn(2, 8))


@pytest.mark.parametrize("mode", MODES)
def test_a_training_step_gives_the_gradients_of_eager(mode: str) -> None:
    model, reference = mlp(), mlp()
    compiled = torch.compile(model, backend=get_npu_backend(compiler_config=config(mode)))
    for _ in range(3):
        x = torch.randn(6, 8)
        compiled(x).square().sum().backward()
        reference(x).square().sum().backward()
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_two_forward_calls_before_their_backward_keep_each_its_activations() -> None:
    model, reference = mlp(), mlp()
    compiled = torch.compile(model, backend=get_npu_backend(compiler_config=config("reduce-overhead")))
    xs = [torch.randn(6, 8) for _ in range(2)]
    compiled(xs[0])
    first, second = compiled(xs[0]).square().sum(), compiled(xs[1]).square().sum()
    (first + 2 * second).backward()
    (reference(xs[0]).square().sum() + 2 * reference(xs[1]).square().sum()).backward()
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_custom_decompositions_reach_the_graph() -> None:
    seen: list[str] = []

    def relu(x: Tensor) -> Tensor:
        seen.append("relu")
        return torch.where(x > 0, x, torch.zeros_like(x))

    backend = get_npu_backend(
        compiler_config=config("reduce-overhead"), custom_decompositions={torch.ops.aten.relu.default: relu}
    )
    model, x = mlp(), torch.randn(2, 8)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend=backend)(x), model(x))
    assert seen == ["relu"]
    assert backend.keywords["custom_decompositions"]


def test_a_decomposition_of_an_operator_holds_for_its_overloads() -> None:
    aten = torch.ops.aten
    backend = get_npu_backend(
        custom_decompositions={aten.relu: torch.sin, aten.add: torch.mul, aten.add.Tensor: torch.sub}
    )
    x = torch.rand(3)
    with torch.no_grad():
        given = torch.compile(lambda x, y: (x.relu(), x + y), backend=backend)(x, x * 3)
    torch.testing.assert_close(given, (x.sin(), x - x * 3))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (5, "is of type int"),
        ([torch.ops.aten.relu.default], "is of type list"),
        ({"relu": torch.sin}, "has the key 'relu', which is no operator"),
        ({torch.relu: torch.sin}, "has the key <built-in .*, which is no operator"),
        ({torch.ops.aten.relu.default: 5}, r"has for aten\.relu\.default a value of int"),
    ],
)
def test_what_is_no_decomposition_is_refused_where_it_is_given(given: Any, told: str) -> None:
    with pytest.raises(NoDecomposition, match=f"custom_decompositions {told}"):
        get_npu_backend(custom_decompositions=given)


def test_G01_get_compiler_serves_a_backend_that_calls_aot_autograd_itself() -> None:
    compiler = get_compiler(config("reduce-overhead"))
    model, x = mlp(), torch.randn(2, 8)
    compiled = torch.compile(model, backend=aot_autograd(fw_compiler=compiler))
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize("mode", MODES)
def test_A24_compile_fx_compiles_a_graph_of_aten_operators(mode: str) -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return torch.relu(x @ y), x.sum(0)

    x, y = torch.randn(3, 4), torch.randn(4, 5)
    compiled = compile_fx(make_fx(function, tracing_mode="fake")(x, y), options={"mode": mode})
    for _ in range(2):
        torch.testing.assert_close(tuple(compiled(x, y)), function(x, y))


def test_compile_fx_refuses_what_is_no_graph() -> None:
    with pytest.raises(NotAGraphModule, match="function"):
        compile_fx(lambda x: x)  # type: ignore[arg-type]


def test_reset_closes_the_executors_and_the_next_call_compiles_anew() -> None:
    model, x = mlp(), torch.randn(2, 8)
    compiled = torch.compile(model, backend="air", mode="reduce-overhead")
    with torch.no_grad():
        compiled(x)
        assert _records.alive()
        torch._dynamo.reset()
        assert not _records.alive()
        torch.testing.assert_close(compiled(x), model(x))


def test_a_model_that_is_dropped_takes_its_record_along() -> None:
    compiled = torch.compile(mlp(), backend="air", mode="reduce-overhead")
    with torch.no_grad():
        compiled(torch.randn(2, 8))
    assert len(_records.alive()) == 1
    record, run = _records.alive()[0]
    assert record.name.startswith("graph_")
    del run, compiled
    torch._dynamo.reset_code_caches()
    assert air_backend.air.config is None


def test_a_preset_among_the_options_goes_before_the_configuration_and_before_the_mode() -> None:
    base = config("max-autotune")
    base.air.verify = False
    checked = CompilerConfig.preset("checked")
    checked.air.sync = "off"
    for made in (effective_config(base, None, checked), effective_config(base, "npugraph_ex", checked)):
        assert (made.mode, made.air.verify, made.air.sync) == ("reduce-overhead", True, "off")
    alone = effective_config(None, "npugraph_ex", checked)
    assert (alone.mode, alone.air.verify, alone.air.sync) == ("reduce-overhead", True, "off")
    assert base.mode == "max-autotune"
    assert not base.air.verify


@pytest.mark.parametrize("backend", ["air", get_npu_backend()], ids=["air", "get_npu_backend"])
def test_a_preset_given_as_options_is_run(backend: Any) -> None:
    preset = CompilerConfig.preset("reduce-overhead")
    torch.compile(mlp(), backend=backend, options=preset)(torch.randn(2, 8))  # type: ignore[call-overload]  # a configuration serves as options
    assert _records.alive()[-1][0].executor == "reduce-overhead"


def test_the_mode_of_torch_without_captures_is_max_autotune() -> None:
    assert effective_config(None, "max-autotune-no-cudagraphs", None).mode == "max-autotune"
    x = torch.randn(2, 8)
    model = mlp()
    compiled = torch.compile(model, backend="air", mode="max-autotune-no-cudagraphs")
    torch.testing.assert_close(compiled(x), model(x))


def test_a_stride_that_is_a_product_of_three_sizes_is_right() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        whole = x.broadcast_to(x.shape)
        torch._dynamo.graph_break()
        whole.neg_()  # torch traces the strides of the whole with products of three sizes
        return x.argmax(0)

    for mode in ("reduce-overhead", "max-autotune"):
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="air", dynamic=True, options={"mode": mode})
        for _ in range(2):
            x = torch.arange(96.0).reshape(2, 6, 2, 4) - 40
            twin = x.clone()
            assert torch.equal(compiled(twin), function(x))
            assert torch.equal(twin, x)
