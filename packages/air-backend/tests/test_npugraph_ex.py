"""What is written for npugraph_ex runs on AIR under its own names, and is what eager is."""

from __future__ import annotations

import importlib
import json
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._functorch.aot_autograd import aot_module_simplified

import air_backend
from air_backend import _alias, npugraph_ex
from air_backend.errors import NotACache, OptionsOfWrongType
from air_backend.npugraph_ex import npu_fx_compiler as compiler
from air_backend.npugraph_ex.configs.compiler_config import _process_kwargs_options
from air_config import Context, resolve
from air_config.errors import UnknownOption, WrongType
from forked import on_air_sim, run_python

NPU: Any = getattr(torch, "npu", None)
VLLM = pytest.mark.npu("vLLM-Ascend keeps graphs for NPUs")
WALK = """
import importlib, json, types
import torch, torch_npu, torch._dynamo
import npugraph_ex
MODULES = ("", "configs.compiler_config", "core.utils", "inference", "scope", "patterns.pattern_pass_manager")
found = {}
for module in MODULES:
    listed = getattr(importlib.import_module("npugraph_ex" + ("." + module if module else "")), "__all__", ())
    found[module] = [name for name in listed if not name.startswith("_")]
found["scope"] = ["limit_core_num", "deterministic"]
options = [name for name in vars(npugraph_ex.CompilerConfig()) if name != "_fixed_attrs"]
print("WALKED" + json.dumps({"names": found, "options": options}))
"""


@pytest.fixture
def in_place() -> Iterator[None]:
    _alias.install_as_torchair()
    yield
    _alias.uninstall()


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def run_program(folder: Path, text: str) -> str:
    """The output of a program in a process of its own."""
    source = textwrap.dedent(text)
    done = run_python(source, folder=folder) if NPU is None else on_air_sim(source, folder)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


@pytest.mark.npu("torch_npu's own npugraph_ex is beside it")
def test_N27_every_public_name_and_option_of_the_wheels_npugraph_ex_is_here(tmp_path: Path) -> None:
    walked = json.loads(run_program(tmp_path, WALK).partition("WALKED")[2])
    assert sum(map(len, walked["names"].values())) > 10
    assert len(walked["options"]) > 25
    for module, names in walked["names"].items():
        ours = importlib.import_module("air_backend.npugraph_ex" + ("." + module if module else ""))
        assert [name for name in names if not hasattr(ours, name)] == []
    config = npugraph_ex.CompilerConfig()
    assert [name for name in walked["options"] if not hasattr(config, name)] == []


@pytest.mark.parametrize("name", npugraph_ex.__all__)
def test_N27_every_name_of_ours_can_be_had(name: str) -> None:
    assert getattr(npugraph_ex, name) is not None
    assert name in dir(npugraph_ex)


def test_N27_options_lie_flat_and_are_those_of_the_tree() -> None:
    config = npugraph_ex.CompilerConfig()
    assert config.mode == "npugraph_ex"
    config.force_eager = True
    config.inplace_pass = False
    config.capture_limit = 7
    assert (config.force_eager, config.inplace_pass, config.capture_limit) == (True, False, 7)
    assert config.debug.run_eagerly
    assert config.debug.aclgraph.disable_reinplace_inplaceable_ops_pass
    assert config.get("debug.aclgraph.static_capture_size_limit") == 7
    config.debug.run_eagerly = False
    assert config.force_eager is False


def test_N27_a_flat_option_that_is_misspelt_or_of_the_wrong_type_is_an_error_with_its_name() -> None:
    config = npugraph_ex.CompilerConfig()
    with pytest.raises(UnknownOption, match="force_eagre"):
        config.force_eagre = True  # type: ignore[attr-defined]
    with pytest.raises(UnknownOption, match="force_eagre"):
        config.force_eagre  # type: ignore[attr-defined]
    with pytest.raises(WrongType, match="capture_limit"):
        config.capture_limit = "many"  # type: ignore[assignment]


def test_N27_a_flat_option_is_taken_back_as_one_of_the_tree() -> None:
    config = npugraph_ex.CompilerConfig()
    config.force_eager, config.inplace_pass, config.mode = True, False, "reduce-overhead"
    del config.force_eager, config.inplace_pass
    assert config.assigned() == {"mode": "reduce-overhead"}
    assert (config.force_eager, config.inplace_pass) == (False, True)
    with pytest.raises(UnknownOption):
        delattr(config, "force_" + "eagre")


@pytest.mark.parametrize("preset", ["reduce-overhead", "max-autotune", "npugraph_ex"])
def test_N27_a_preset_that_is_asked_for_brings_its_mode(preset: str) -> None:
    made = npugraph_ex.CompilerConfig.preset(preset)
    assert resolve(made, Context(env={})).mode == preset
    given = npugraph_ex.CompilerConfig.from_options({"mode": "max-autotune"}, mode=preset)
    assert resolve(given, Context(env={})).mode == "max-autotune"


def test_N27_options_of_a_call_are_assigned_as_vllm_ascend_does_it() -> None:
    config = npugraph_ex.CompilerConfig()
    _process_kwargs_options(config, {"options": {"force_eager": True, "inplace_pass": False}})
    assert (config.force_eager, config.inplace_pass) == (True, False)
    _process_kwargs_options(config, {})
    with pytest.raises(UnknownOption, match=r"(?s)force_eagre.*in options"):
        _process_kwargs_options(config, {"options": {"force_eagre": True}})


def test_a_preset_among_the_options_of_a_call_is_assigned() -> None:
    config = npugraph_ex.CompilerConfig()
    _process_kwargs_options(config, {"options": air_backend.CompilerConfig.preset("checked")})
    assert (config.mode, config.air.verify) == ("reduce-overhead", True)


def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return torch.relu(x @ y) + 1, (x - y).sum(0)


@pytest.mark.parametrize("dynamic", [False, True])
def test_N27_the_backend_of_that_name_is_ours_and_gives_what_eager_gives(
    in_place: None, device: str, dynamic: bool
) -> None:
    assert torch._dynamo.backends.registry.lookup_backend("npugraph_ex") is npugraph_ex.backend
    options: Any = {"clone_input": False}
    compiled = torch.compile(step, backend="npugraph_ex", options=options, fullgraph=True, dynamic=dynamic)
    with torch.no_grad():
        for size in (4, 4, 4, 6) if dynamic else (4, 4, 4):
            x, y = torch.randn(size, size, device=device), torch.randn(size, size, device=device)
            for found, expected in zip(compiled(x, y), step(x, y), strict=True):
                torch.testing.assert_close(found, expected)


def test_N27_get_npu_backend_takes_its_own_configuration_and_refuses_other_things(device: str) -> None:
    config = npugraph_ex.CompilerConfig()
    config.force_eager = True
    compiled = torch.compile(step, backend=npugraph_ex.get_npu_backend(compiler_config=config))
    x, y = torch.randn(4, 4, device=device), torch.randn(4, 4, device=device)
    for found, expected in zip(compiled(x, y), step(x, y), strict=True):
        torch.testing.assert_close(found, expected)
    with pytest.raises(OptionsOfWrongType):
        npugraph_ex.get_npu_backend(compiler_config={"force_eager": True})  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [None, {"clone_input": False}])
def test_N27_compile_fx_is_a_compiler_for_a_backend_of_the_users(device: str, options: Any) -> None:
    def with_ours(gm: Any, example_inputs: Any) -> Any:
        def compile_graph(graph: Any, inputs: Any) -> Any:
            return npugraph_ex.compile_fx(graph, inputs, options)

        return aot_module_simplified(gm, example_inputs, fw_compiler=compile_graph)  # type: ignore[arg-type]  # any function does

    compiled = torch.compile(lambda x, y: x + y, backend=with_ours, fullgraph=True, dynamic=False)
    ones = torch.ones(1, dtype=torch.int32, device=device)
    for _ in range(3):
        assert compiled(ones, ones).item() == 2


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [("clone_outputs", "clone_output"), ("capture_limits", "capture_limit"), ("force_eagr", "force_eager")],
)
def test_a_mistyped_name_is_answered_with_the_flat_name_like_it(mistyped: str, meant: str) -> None:
    with pytest.raises(UnknownOption, match=f"did you mean '{meant}'"):
        setattr(npugraph_ex.CompilerConfig(), mistyped, True)


@contextmanager
def kept_texts() -> Iterator[list[str]]:
    """What a client that puts itself before the compiler, as vLLM-Ascend does, keeps of each graph."""
    own: Any = compiler._NpuFxCompiler._get_compiled_gm
    kept: list[str] = []

    def keeping(self: Any, gm: Any, example_inputs: Any) -> Any:
        compiled = own(self, gm, example_inputs)
        kept.append(compiled.get_code())
        return compiled

    names: Any = compiler._NpuFxCompiler
    names._get_compiled_gm = keeping
    try:
        yield kept
    finally:
        names._get_compiled_gm = own


def texts_of(function: Any, *inputs: Tensor, dynamic: bool = True) -> list[str]:
    """The texts of a function's graphs, which is held to eager."""
    with kept_texts() as kept, torch.no_grad():
        compiled: Any = torch.compile(function, backend=npugraph_ex.get_npu_backend(), dynamic=dynamic)
        torch.testing.assert_close(compiled(*inputs), function(*inputs))
    return kept


def loaded(text: str) -> Any:
    artifacts = compiler._CompiledFxArtifacts()
    artifacts.py_code = text
    return compiler._CompiledFxGraph.load_artifacts(artifacts)


def test_N27_vllm_ascend_keeps_a_compiled_graph_as_text_and_calls_what_it_reads(device: str) -> None:
    x, y = torch.randn(4, 4, device=device), torch.randn(4, 4, device=device)
    (text,) = texts_of(step, x, y)
    assert "aten.relu" in text
    graph = loaded(text)
    for size in (4, 4, 4, 6):
        x, y = torch.randn(size, size, device=device), torch.randn(size, size, device=device)
        for found, expected in zip(graph(size, x, y), step(x, y), strict=True):
            torch.testing.assert_close(found, expected)
    assert graph.get_code() == text


@pytest.mark.parametrize("device", ["cpu", pytest.param("npu", marks=[VLLM, pytest.mark.slow])])
def test_N27_the_text_of_a_graph_is_read_by_another_process(tmp_path: Path, device: str) -> None:
    (text,) = texts_of(step, torch.ones(4, 4, device=device), torch.ones(4, 4, device=device), dynamic=False)
    (tmp_path / "graph").write_text(text)
    read = f"""
        import torch
        from air_backend.npugraph_ex.npu_fx_compiler import _CompiledFxArtifacts, _CompiledFxGraph
        artifacts = _CompiledFxArtifacts(py_code=open({str(tmp_path / "graph")!r}).read())
        graph = _CompiledFxGraph.load_artifacts(artifacts)
        for start in (1.0, 2.0, 3.0):
            x, y = torch.full((4, 4), start, device={device!r}), torch.ones(4, 4, device={device!r})
            torch.testing.assert_close(graph(x, y)[0], torch.relu(x @ y) + 1)
        print("equal")
    """
    assert run_program(tmp_path, read).endswith("equal\n")


def test_N27_a_write_into_an_input_is_part_of_the_text() -> None:
    def write(cache: Tensor, x: Tensor) -> Tensor:
        cache.add_(x)
        return cache * 2

    with kept_texts() as kept, torch.no_grad():
        torch.compile(write, backend=npugraph_ex.get_npu_backend())(torch.zeros(3), torch.ones(3))
    cache = torch.zeros(3)
    (found,) = loaded(kept[0])(cache, torch.ones(3))
    torch.testing.assert_close(found, torch.full((3,), 2.0))
    torch.testing.assert_close(cache, torch.ones(3))


def written(x: Tensor) -> Tensor:
    x.add_(1)
    return x * 2


def shared(x: Tensor, y: Tensor) -> Tensor:
    x.add_(1)
    return y * 2


def test_N27_a_graph_that_needs_work_around_it_has_no_text_and_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    base = torch.zeros(4, 2)
    outside = npugraph_ex.CompilerConfig()
    outside.experimental_config.keep_inference_input_mutations = False
    with kept_texts() as kept, torch.no_grad():
        torch.compile(written, backend=npugraph_ex.get_npu_backend(compiler_config=outside))(torch.ones(2, 3))
        torch.compile(shared, backend=npugraph_ex.get_npu_backend())(base[:3], base[1:])
    assert kept == ["", ""]
    assert "inputs are written after the graph" in caplog.text
    assert "inputs that share memory are one input of the graph" in caplog.text


@pytest.mark.parametrize(
    ("text", "version", "why"),
    [
        ("import torch\n", "0.1", "AIR did not write it"),
        ("", "0.1", "AIR did not write it"),
        ("# AIR 1: a graph of air-backend", "9", "its version is 9"),
    ],
)
def test_N27_a_text_that_is_not_ours_is_refused_and_not_run(text: str, version: str, why: str) -> None:
    artifacts = compiler._CompiledFxArtifacts(version=version, py_code=text)
    with pytest.raises(NotACache, match=why):
        compiler._CompiledFxGraph.load_artifacts(artifacts)


def test_N27_torchair_has_the_same_names_for_older_versions_of_the_patch(in_place: None) -> None:
    from torchair.core import _concrete_graph as concrete  # type: ignore[import-not-found]
    from torchair.core.utils import EVENT_LEVEL, logger  # type: ignore[import-not-found]

    theirs = importlib.import_module("torchair.npu_fx_compiler")
    pack = concrete.ValuePack(meta={"value": 1}, npu_meta={"value": 2})
    assert theirs._unpack_meta_list([pack, 3]) == [{"value": 1}, 3]
    assert theirs._CompiledFxGraph is compiler._CompiledFxGraph
    x = torch.ones(2)
    with torch.no_grad():
        assert torch.compile(torch.neg, backend=theirs.get_npu_backend())(x).equal(-x)
    assert logger.isEnabledFor(EVENT_LEVEL)


def test_N27_vllm_ascends_patch_of_value_pack_applies_and_changes_no_result(in_place: None) -> None:
    import npugraph_ex as theirs  # type: ignore[import-not-found]
    import npugraph_ex.npu_fx_compiler  # type: ignore[import-not-found]

    concrete = theirs.core._concrete_graph
    pack = concrete.ValuePack(meta={"value": 1}, npu_meta={"value": 2})
    assert pack["value"] == 1
    assert theirs.npu_fx_compiler._unpack_meta(({"a": pack},), {"b": pack}) == (
        [{"a": {"value": 1}}],
        {"b": {"value": 1}},
    )
    assert theirs.npu_fx_compiler._NpuGraphConverter._unpack_npu(None, ([pack, 3],), {}) == (
        [[{"value": 2}, 3]],
        {},
    )
    assert concrete._is_symlist([concrete.ValuePack(3), 4])
    assert not concrete._is_symlist([concrete.ValuePack(torch.ones(1)), 4])
    before = concrete.ValuePack
    try:
        concrete.ValuePack = type("ValuePack", (before,), {})
        importlib.reload(sys.modules["npugraph_ex.npu_fx_compiler"])
        compiled = torch.compile(step, backend=theirs.get_npu_backend())
        x, y = torch.randn(4, 4), torch.randn(4, 4)
        torch.testing.assert_close(compiled(x, y)[0], step(x, y)[0])
    finally:
        concrete.ValuePack = before


FOREIGN = """
    import air_backend
    air_backend.install_as_torchair()
    import torch
    import torchair, npugraph_ex
    import npugraph_ex.npu_fx_compiler, npugraph_ex.core._concrete_graph
    from npugraph_ex.configs.compiler_config import CompilerConfig
    assert torchair is air_backend and npugraph_ex is air_backend.npugraph_ex
    assert CompilerConfig is npugraph_ex.CompilerConfig
"""
ON_NPU = """
    import torch_npu, torch_npu.dynamo
    import torch_npu.dynamo.torchair as theirs, torch_npu.dynamo.npugraph_ex as other
    from torch.npu.npugraph_ex.scope import limit_core_num
    from torch_npu.npu.npugraph_ex import inference
    assert theirs is air_backend and other is npugraph_ex
    assert torch.npu.npugraph_ex is npugraph_ex and torch_npu.npu.npugraph_ex is npugraph_ex
    assert torch_npu.dynamo.torchair is air_backend
    heads = ("torchair", "npugraph_ex")
    modules = {name: str(vars(module).get("__file__")) for name, module in list(__import__("sys").modules.items())}
    assert not any(name.partition(".")[0] in heads and "torch_npu" in file for name, file in modules.items())
    x = torch.ones(3, device="npu")
    for backend in ("npugraph_ex", "npu"):
        assert torch.equal(torch.compile(lambda x: x + 1, backend=backend)(x), x + 1)
    assert torch._dynamo.utils.counters["air"]["graphs"] == 2
"""


def test_N27_install_as_torchair_puts_every_name_in_place(tmp_path: Path) -> None:
    tested = """
    for backend in ("npugraph_ex", "npu"):
        assert torch.equal(torch.compile(lambda x: x + 1, backend=backend)(torch.ones(3)), torch.ones(3) + 1)
    assert torch._dynamo.utils.counters["air"]["graphs"] == 2
    print(air_backend._alias.in_place())
    """
    assert run_program(tmp_path, FOREIGN + tested).endswith("{'torchair': 'AIR', 'npugraph_ex': 'AIR'}\n")


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("", marks=pytest.mark.slow),
        "import torch._dynamo\n    import npugraph_ex.scope, torchair\n",
    ],
    ids=["not imported", "imported"],
)
@pytest.mark.npu("torch_npu's own npugraph_ex is beside it")
def test_N27_the_names_under_torch_npu_are_ours_also_where_its_own_were_imported_before(
    tmp_path: Path, before: str
) -> None:
    run_program(tmp_path, "\n    import torch\n    " + before + FOREIGN + ON_NPU)


@pytest.mark.slow
@pytest.mark.npu("torch_npu's own npugraph_ex is beside it")
def test_N27_torch_npu_that_is_imported_later_leaves_our_names_where_they_are(tmp_path: Path) -> None:
    late = "\n    import os\n    os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'\n"
    run_program(tmp_path, late + FOREIGN + ON_NPU)


def test_N27_uninstall_gives_the_backends_back() -> None:
    from torch._dynamo.backends import registry

    before = dict(registry._COMPILER_FNS), dict(registry._BACKENDS)
    _alias.install_as_torchair()
    assert registry._COMPILER_FNS["npugraph_ex"] is npugraph_ex.backend
    _alias.uninstall()
    assert (dict(registry._COMPILER_FNS), dict(registry._BACKENDS)) == before


def test_N27_a_module_of_npugraph_ex_that_air_has_not_is_an_error_with_its_name(in_place: None) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"AIR stands in for npugraph_ex .*npugraph_ex\.fx_dumper"):
        importlib.import_module("npugraph_ex.fx_dumper")


class Limited(nn.Module):
    """The program of torch_npu's own test of limit_core_num(stream=)."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        stream = NPU.Stream()
        with npugraph_ex.scope.limit_core_num(4, 5, stream=stream):
            product = torch.mm(x, y)
            with NPU.stream(stream):
                total = torch.add(x, y)
        return total, product, torch.mm(x, y)


@pytest.mark.npu("torch_npu's own npugraph_ex is beside it")
def test_N27_A44_a_core_limit_of_one_stream_holds_for_that_stream_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[tuple[bool, int, int]] = []
    set_limit = NPU.set_stream_limit
    main = NPU.current_stream()

    def noting(stream: Any, aicore: int, vectorcore: int) -> None:
        limits.append((stream == main, aicore, vectorcore))
        set_limit(stream, aicore, vectorcore)

    monkeypatch.setattr(NPU, "set_stream_limit", noting)
    compiled = torch.compile(Limited(), backend=npugraph_ex.backend, fullgraph=True, dynamic=False)
    x, y = torch.randn(4, 4, device="npu"), torch.randn(4, 4, device="npu")
    for _ in range(3):
        for found, expected in zip(compiled(x, y), (x + y, x @ y, x @ y), strict=True):
            torch.testing.assert_close(found, expected)
    assert (False, 4, 5) in limits
    assert all((aicore, vectorcore) != (4, 5) for is_main, aicore, vectorcore in limits if is_main)


@pytest.mark.npu("torch_npu's own npugraph_ex is beside it")
def test_N27_A44_a_core_limit_of_one_stream_acts_in_eager_code_and_is_put_back() -> None:
    stream = NPU.Stream()
    before = NPU.get_stream_limit(stream), NPU.get_stream_limit(NPU.current_stream())
    with npugraph_ex.scope.limit_core_num(4, 5, stream=stream):
        assert NPU.get_stream_limit(stream) == {"cube_core_num": 4, "vector_core_num": 5}
        assert NPU.get_stream_limit(NPU.current_stream()) == before[1]
    assert NPU.get_stream_limit(stream) == before[0]


def test_N27_the_doctor_says_whose_names_are_in_place(in_place: None) -> None:
    from air_backend.doctor._checks import check_names

    seen = check_names()
    assert seen.state == "ok"
    assert seen.seen.startswith("AIR: torchair, npugraph_ex")
    assert air_backend.npugraph_ex is npugraph_ex
