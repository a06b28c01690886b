"""A function of `cache_compile` is traced once: the next process reads it, unless something has changed."""

from __future__ import annotations

import dataclasses
import importlib
import json
import logging
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

import air_backend
import cached_llama
import cached_step
from air_backend._records import alive
from air_backend.errors import CannotSave, OptionsOfWrongType
from air_backend.inference import cache_compile
from air_backend.inference.errors import CacheWarning, TwoConfigurations, UnsafeCache
from forked import run_python

TESTS = Path(__file__).parents[1]
MODES = ("reduce-overhead", "max-autotune")


def traced() -> int:
    """How many graphs Dynamo has made since the test began."""
    return int(counters["stats"].get("unique_graphs", 0))


@pytest.fixture(autouse=True)
def counted() -> None:
    counters.clear()


def files(function: Any) -> list[str]:
    return sorted(path.name for path in function.folder.iterdir())


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("mode", MODES)
def test_A51_G17_a_function_that_was_written_is_read_and_equals_eager(
    mode: str, dynamic: bool, tmp_path: Path
) -> None:
    first, x = cached_step.made(), cached_step.inputs()
    torch.testing.assert_close(
        cached_step.cached(first, str(tmp_path), mode, dynamic)(x), cached_step.expected(x)
    )
    assert traced() == 1
    torch._dynamo.reset()
    again = cached_step.made()
    function = cached_step.cached(again, str(tmp_path), mode, dynamic)
    torch.testing.assert_close(function(x), cached_step.expected(x))
    torch.testing.assert_close(function(x), cached_step.expected(x))
    assert torch.equal(again.cache[0], x[0]), "the cache of the model is written"
    other = cached_step.inputs(5)
    before = traced()
    torch.testing.assert_close(function(other), cached_step.expected(other))
    assert traced() - before == (0 if dynamic else 1), "only static sizes are traced once more"
    assert files(function) == ["compiled_module"] + ["compiled_module.1"] * (not dynamic)


def test_A51_G17_another_process_reads_it(tmp_path: Path) -> None:
    function = cached_step.cached(cached_step.made(), str(tmp_path), "reduce-overhead", True)
    function(cached_step.inputs())
    program = (
        f"import sys; sys.path.insert(0, {str(TESTS)!r})\nimport cached_step; cached_step.main(*sys.argv[1:])"
    )
    ran = run_python(program, str(tmp_path), "reduce-overhead", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["traced"] == 0, ran.stderr
    assert found["difference"] < 1e-5


def read_again(folder: Path, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is said when the files of a folder are read once more; they have to be traced again."""
    torch._dynamo.reset()
    counters.clear()
    caplog.clear()
    x = cached_step.inputs()
    with caplog.at_level(logging.WARNING):
        result = cached_step.cached(cached_step.made(), str(folder), "max-autotune")(x)
    torch.testing.assert_close(result, cached_step.expected(x))
    assert traced() == 1
    return [record.getMessage() for record in caplog.records]


def test_W28_a_global_number_that_changed_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached_step.cached(cached_step.made(), str(tmp_path), "max-autotune")(cached_step.inputs())
    monkeypatch.setattr(cached_step, "SCALE", 3)
    assert any("is not 2 any more" in said for said in read_again(tmp_path, caplog))


def test_W28_source_code_that_changed_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "edited_program.py"
    text = "def program(x):\n    return x.sin() + 1\n"
    module.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    program = importlib.import_module("edited_program")
    x = torch.randn(4)
    cache_compile(program.program, cache_dir=tmp_path)(x)
    module.write_text(text.replace("sin", "cos"))
    os.utime(module, (1, 1))
    program = importlib.reload(program)
    with caplog.at_level(logging.WARNING):
        torch.testing.assert_close(cache_compile(program.program, cache_dir=tmp_path)(x), x.cos() + 1)
    assert "the source code of edited_program has changed" in caplog.text


@pytest.mark.parametrize("name", ["air-backend", "torch"])
def test_W28_W29_a_file_of_another_version_is_not_read(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    function = cached_step.cached(cached_step.made(), str(tmp_path), "max-autotune")
    function(cached_step.inputs())
    key = function._store.key
    versions = {**key.versions, name: "0.0.0"}
    assert dataclasses.replace(key, versions=versions).name != key.name
    path = function.folder / "compiled_module"
    data = path.read_bytes()
    path.write_bytes(data[:100])  # and one that was cut off
    assert any(str(path) in said and "not used" in said for said in read_again(tmp_path, caplog))
    assert files(function) == ["compiled_module", "compiled_module.1"], "nothing is deleted"


def test_W28_numbers_that_a_function_closes_over_and_defaults_are_in_the_key(tmp_path: Path) -> None:
    def times(number: int, default: int) -> Any:
        def program(x: Tensor, added: int = default) -> Tensor:
            return x * number + added

        return program

    x = torch.ones(2)
    for number, default in ((2, 0), (3, 0), (3, 1)):
        torch._dynamo.reset()
        function = cache_compile(times(number, default), cache_dir=tmp_path)
        assert torch.equal(function(x), x * number + default)


def test_parameters_of_another_type_are_traced_anew(tmp_path: Path) -> None:
    cached_step.cached(cached_step.made(), str(tmp_path), "reduce-overhead")(cached_step.inputs())
    torch._dynamo.reset()
    counters.clear()
    x = cached_step.inputs(dtype=torch.float64)
    function = cached_step.cached(cached_step.made(torch.float64), str(tmp_path), "reduce-overhead")
    torch.testing.assert_close(function(x), cached_step.expected(x))
    assert traced() == 1


def test_other_options_have_files_of_their_own(tmp_path: Path) -> None:
    folders = {
        cached_step.cached(cached_step.made(), str(tmp_path), mode, dynamic).folder
        for mode in MODES
        for dynamic in (False, True)
    }
    assert len(folders) == 4


def test_each_rank_has_a_folder_of_its_own(tmp_path: Path) -> None:
    step = cached_step.made().step
    one = cache_compile(step, cache_dir=tmp_path, global_rank=3, tp_rank=1, pp_rank=0)
    assert one.folder.parent.name == "world1global_rank3_tp_rank1_pp_rank0"
    assert cache_compile(step, cache_dir=tmp_path).folder.parent.name == "world1global_rank0"


def test_the_variable_of_torchair_names_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHAIR_CACHE_HOME", str(tmp_path / "home"))
    assert cache_compile(cached_step.made().step).folder.is_relative_to(tmp_path / "home")


def test_files_that_others_may_write_are_not_run(tmp_path: Path) -> None:
    function = cached_step.cached(cached_step.made(), str(tmp_path), "max-autotune")
    function(cached_step.inputs())
    path = function.folder / "compiled_module"
    assert path.stat().st_mode & 0o077 == 0
    path.chmod(0o666)
    torch._dynamo.reset()
    with pytest.raises(UnsafeCache, match=r"compiled_module is not read.*others may write") as failure:
        cached_step.cached(cached_step.made(), str(tmp_path), "max-autotune")(cached_step.inputs())
    assert "chmod go-w" in failure.value.advice


def test_a_preset_given_as_options_is_run(tmp_path: Path) -> None:
    preset = air_backend.CompilerConfig.preset("checked")
    function = cache_compile(cached_step.made().step, cache_dir=tmp_path, options=preset)
    function(cached_step.inputs())
    settings = alive()[-1][0].settings
    assert (settings.mode, settings.air.verify) == ("reduce-overhead", True)


def test_G18_without_the_graph_engine_ge_cache_does_nothing_and_a_warning_says_so(tmp_path: Path) -> None:
    model, x = cached_step.made(), cached_step.inputs()
    config = air_backend.CompilerConfig()
    config.mode = "reduce-overhead"
    with pytest.warns(CacheWarning, match="ge_cache=True does nothing in mode reduce-overhead"):
        function = cache_compile(model.step, config=config, cache_dir=tmp_path, ge_cache=True)
    torch.testing.assert_close(function(x), cached_step.expected(x))
    assert files(function) == ["compiled_module"]
    with pytest.warns(CacheWarning, match="ge_cache=True does nothing in mode reduce-overhead"):
        cache_compile(model.step, mode="reduce-overhead", cache_dir=tmp_path, ge_cache=True)


def test_G18_on_the_cpu_nothing_is_kept_of_the_reference_engine_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model, x = cached_step.made(), cached_step.inputs()
    function = cache_compile(model.step, cache_dir=tmp_path, ge_cache=True)
    with caplog.at_level(logging.WARNING):
        torch.testing.assert_close(function(x), cached_step.expected(x))
    assert "engine reference compiles nothing that could be kept" in caplog.text
    assert files(function) == ["compiled_module"]


def test_A51_options_that_no_file_can_hold_are_compiled_in_each_process(tmp_path: Path) -> None:
    config = air_backend.CompilerConfig()
    config.post_grad_custom_pre_pass = lambda gm, inputs, config: None
    with pytest.warns(CacheWarning, match=r"step is not kept.*post_grad_custom_pre_pass"):
        function = cache_compile(cached_step.made().step, config=config, cache_dir=tmp_path)
    x = cached_step.inputs()
    torch.testing.assert_close(function(x), cached_step.expected(x))
    with pytest.raises(CannotSave):
        function.folder


def custom(x: Tensor) -> Tensor:
    return x.sin()


def test_A51_a_decomposition_of_the_users_is_part_of_the_key_and_acts(tmp_path: Path) -> None:
    model, x = Holding(), torch.randn(3, 4)

    def compiled(rule: Any) -> Any:
        torch._dynamo.reset()
        rules = {torch.ops.aten.sin.default: rule}
        return cache_compile(model.step, cache_dir=tmp_path, custom_decompositions=rules)

    function = compiled(squared)
    torch.testing.assert_close(function(x), (x * x) + 1)
    text = air_backend.inference.readable_cache(function.folder / "compiled_module", False)
    assert "torch.ops.aten.sin" not in text
    again = compiled(squared)
    assert again.folder == function.folder
    torch.testing.assert_close(again(x), (x * x) + 1)
    assert compiled(cubed).folder != function.folder
    torch.testing.assert_close(compiled(cubed)(x), (x * x * x) + 1)


def test_A51_what_goes_into_a_file_is_never_made_of_what_torchs_cache_holds(tmp_path: Path) -> None:
    """Torch's key knows nothing of decompositions, and what it reads runs."""
    model, x = Holding(), torch.randn(3, 4)
    for folder, rules in (("plain", None), ("rules", {torch.ops.aten.sin.default: squared}), ("again", None)):
        torch._dynamo.reset()
        function = cache_compile(model.step, cache_dir=tmp_path / folder, custom_decompositions=rules)
        torch.testing.assert_close(function(x), (x * x if rules else x.sin()) + 1)
    assert traced() == 3
    assert counters["aot_autograd"]["autograd_cache_hit"] == 0


@pytest.mark.parametrize("switched_off", [
    lambda: torch.compiler.config.patch(force_disable_caches=True),  # type: ignore[attr-defined]
    lambda: torch._functorch.config.patch(enable_autograd_cache=False),
], ids=["all", "of AOTAutograd"])  # fmt: skip
def test_A51_where_torch_makes_no_entries_of_its_cache_each_process_compiles(
    switched_off: Any, tmp_path: Path
) -> None:
    model, x = Holding(), torch.randn(3, 4)
    function = cache_compile(model.step, cache_dir=tmp_path)
    with (
        switched_off(),
        pytest.warns(CacheWarning, match=r"Holding.step is not kept.*switched off \(TORCHIND"),
    ):
        torch.testing.assert_close(function(x), x.sin() + 1)
    assert not list(tmp_path.rglob("compiled_module"))


def squared(x: Tensor) -> Tensor:
    return x * x


def cubed(x: Tensor) -> Tensor:
    return x * x * x


class Holding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.held = self.inner  # a method that the object holds of itself

    def inner(self, x: Tensor) -> Tensor:
        return x.sin() + 1

    def step(self, x: Tensor) -> Tensor:
        return self.held(x)


class Keeper:
    def __init__(self) -> None:
        self.weight = torch.randn(4)

    def step(self, x: Tensor) -> Tensor:
        return x * self.weight


def test_A51_a_method_that_an_object_holds_and_one_of_no_module_are_kept(tmp_path: Path) -> None:
    x = torch.randn(3, 4)
    for held in (Holding(), Keeper()):
        torch._dynamo.reset()
        expected = held.step(x)
        for _ in range(2):
            function = cache_compile(held.step, cache_dir=tmp_path)
            torch.testing.assert_close(function(x), expected)
            torch.testing.assert_close(function(x), expected)


def built(scale: float) -> tuple[Any, Any]:
    """A model and a kind of argument, whose classes are made here; the model holds what was compiled of itself."""

    @dataclasses.dataclass
    class Meta:
        data: Tensor
        is_prompt: bool

    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.full((3,), scale))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.weight

    class Model(nn.Module):
        def __init__(self, folder: Path) -> None:
            super().__init__()
            self.scale = Scale()
            self.cached = cache_compile(self.step, cache_dir=folder)

        def forward(self, meta: Meta, cache: list[Tensor]) -> Any:
            return self.cached(meta, cache)

        def step(self, meta: Meta, cache: list[Tensor]) -> Tensor:
            scaled: Tensor = self.scale(meta.data)
            return scaled + cache[0]

    return Model, Meta


def test_A51_classes_made_inside_a_function_are_kept_with_a_model_that_holds_what_it_was_compiled_to(
    tmp_path: Path,
) -> None:
    one, two = torch.ones(3), torch.full((3,), 2.0)
    for scale, count in ((2.0, 1), (3.0, 0)):  # the second reads what the first has written
        torch._dynamo.reset()
        before = traced()
        make, meta = built(scale)
        model = make(tmp_path)
        with warnings.catch_warnings():
            warnings.simplefilter("error", CacheWarning)
            torch.testing.assert_close(model(meta(one, True), [two]), one * scale + two)
            torch.testing.assert_close(model(meta(two, True), [one]), two * scale + one)
        assert traced() - before == count
        assert files(model.cached) == ["compiled_module"]
        assert make.__qualname__ == "built.<locals>.Model"
        assert not [name for name in globals() if name.startswith("_air_local_")]


class Holder(nn.Module):
    """As TorchAir's documents do it: the model calls what was compiled of itself."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.cached = cache_compile(self.step, cache_dir=folder)

    def forward(self, x: Tensor) -> Any:
        return self.cached(x)

    def step(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x)
        return result + 1


def test_A51_a_model_that_holds_what_it_was_compiled_to_is_kept(tmp_path: Path) -> None:
    for count in (1, 0):
        torch._dynamo.reset()
        before = traced()
        model, x = Holder(tmp_path), torch.rand(2, 3)
        torch.testing.assert_close(model(x), model.step(x))
        assert traced() - before == count


def test_A51_arguments_of_torch_compile_are_taken(tmp_path: Path) -> None:
    model, x = Holding(), torch.randn(3, 4)
    function = cache_compile(
        model.step, cache_dir=tmp_path, fullgraph=True, mode="reduce-overhead", options={"clone_output": True}
    )
    torch.testing.assert_close(function(x), model.step(x))
    about = air_backend.inference.readable_cache(function.folder / "compiled_module", False)
    assert "enable_output_clone" in about
    assert traced() == 1
    torch.testing.assert_close(cache_compile(model.step, disable=True)(x), model.step(x))
    assert traced() == 1


def test_N27_cache_compile_of_npugraph_ex_takes_flat_options_and_its_mode(tmp_path: Path) -> None:
    from air_backend.npugraph_ex.inference import cache_compile as theirs

    model, x = Holding(), torch.randn(3, 4)
    function = theirs(model.step, cache_dir=tmp_path, dynamic=False, options={"frozen_parameter": True})
    for _ in range(3):
        torch.testing.assert_close(function(x), model.step(x))
    about = air_backend.inference.readable_cache(function.folder / "compiled_module", False)
    assert '"mode": "npugraph_ex"' in about
    assert "frozen_parameter" in about


def test_two_configurations_and_what_is_no_function_are_refused() -> None:
    step = cached_step.made().step
    other = air_backend.CompilerConfig()
    other.mode = "reduce-overhead"
    with pytest.raises(TwoConfigurations):
        cache_compile(
            step,
            config=other,
            backend=air_backend.get_npu_backend(compiler_config=air_backend.CompilerConfig()),
        )
    with pytest.raises(OptionsOfWrongType, match=r"cache_compile\(config=\.\.\.\) got a dict"):
        cache_compile(step, config={"mode": "max-autotune"})  # type: ignore[arg-type]


def test_an_export_does_not_go_to_a_file(tmp_path: Path) -> None:
    config = air_backend.CompilerConfig()
    config.export.export_mode = True
    with pytest.raises(Exception, match="compile-cache-limits"):
        cache_compile(cached_step.made().step, config=config, cache_dir=tmp_path)(cached_step.inputs())


def test_the_configuration_of_a_backend_is_used(tmp_path: Path) -> None:
    config = air_backend.CompilerConfig()
    config.mode = "reduce-overhead"
    backend = air_backend.get_npu_backend(compiler_config=config)
    x = cached_step.inputs()
    function = cache_compile(cached_step.made().step, backend=backend, cache_dir=tmp_path)
    torch.testing.assert_close(function(x), cached_step.expected(x))
    assert counters["air"]["captures"] == 1


def test_A51_a_model_of_transformers_is_read_with_other_sizes(tmp_path: Path) -> None:
    model = cached_llama.made()
    ids, more = torch.arange(8)[None], torch.arange(11)[None]
    for _ in range(2):
        torch._dynamo.reset()
        counters.clear()
        function = cache_compile(model.logits, cache_dir=tmp_path)
        with torch.no_grad():
            torch.testing.assert_close(function(ids), model.logits(ids))
            torch.testing.assert_close(function(more), model.logits(more))
    assert traced() == 0
    assert files(function) == ["compiled_module"]


@pytest.mark.parametrize("mode", MODES)
def test_A51_G17_a_function_on_the_device_is_read_and_equals_the_cpu(
    accelerator: str, mode: str, tmp_path: Path
) -> None:
    x = cached_step.inputs()
    for _ in range(2):
        torch._dynamo.reset()
        counters.clear()
        function = cached_step.cached(cached_step.made().to(accelerator), str(tmp_path), mode)
        for _ in range(3):
            torch.testing.assert_close(
                function(x.to(accelerator)).cpu(), cached_step.expected(x), rtol=1e-4, atol=1e-4
            )
    assert traced() == 0


class Plain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


def test_a_plain_function_and_a_forward_are_compiled_as_well(tmp_path: Path) -> None:
    x = torch.ones(2)
    assert torch.equal(cache_compile(custom, cache_dir=tmp_path)(x), x.sin())
    assert torch.equal(cache_compile(Plain().forward, cache_dir=tmp_path)(x), x + 1)
