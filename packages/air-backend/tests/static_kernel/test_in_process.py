"""Static kernels in one process over air-sim: every shape, mutated inputs, run_eagerly, the profiler, a failure."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed

from air_aclgraph.static_kernel import StaticKernels, StaticKernelWarning
from air_backend import CompilerConfig, _records, get_npu_backend

pytestmark = pytest.mark.npu("static kernels are made by CANN's compiler")


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build directory; the library, the state and the compiler's log are the test's own, too."""
    for name in ("opp", "tmp", "build"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("ASCEND_OPP_PATH", str(tmp_path / "opp"))
    monkeypatch.setenv("AIR_SIM_OP_COMPILER_LOG", str(tmp_path / "compiled"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path / "build"


def config_for(build: Path, **settings: object) -> CompilerConfig:
    config = CompilerConfig()
    config.mode = "reduce-overhead"
    config.experimental_config.aclgraph._aclnn_static_shape_kernel = True
    config.experimental_config.aclgraph._aclnn_static_shape_kernel_build_dir = str(build)
    for path, value in settings.items():
        config.set(path.replace("__", "."), value)
    return config


def compiled(
    function: Callable[..., Any], config: CompilerConfig, dynamic: bool = False
) -> Callable[..., Any]:
    made: Callable[..., Any] = torch.compile(
        function, backend=get_npu_backend(compiler_config=config), dynamic=dynamic
    )
    return made


def operators_compiled(build: Path) -> list[int]:
    log = build.parent / "compiled"
    lines = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line)["operators"] for line in lines]


def executor() -> Any:
    return _records.alive()[-1][1]


def model(x: Tensor, w: Tensor) -> Tensor:
    return torch.relu(x @ w) + 1


def same(call: Callable[..., Any], *sizes: int) -> None:
    w = torch.randn(4, 4).to("npu")
    for size in sizes:
        x = torch.randn(size, 4).to("npu")
        torch.testing.assert_close(call(x, w), model(x, w))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("eagerly", [False, True])
def test_S07_S13_N17_each_shape_is_compiled_once(build: Path, eagerly: bool) -> None:
    config = config_for(build, debug__run_eagerly=eagerly)
    same(compiled(model, config, dynamic=True), 2, 3, 2, 3, 5)
    assert operators_compiled(build) == [3, 3, 3]
    described = executor().explain()
    assert [report["compiled"] for report in described["static kernels"]] == [3, 3, 3]
    assert executor_name() == ("run_eagerly" if eagerly else "reduce-overhead")
    assert ("keys" in described) == (not eagerly), "only a captured graph has captures"


def executor_name() -> str:
    return _records.alive()[-1][0].executor


def test_S13_a_watched_symbol_leaves_other_shapes_alone(build: Path) -> None:
    config = config_for(build)
    config.experimental_config.aclgraph._aclnn_static_shape_kernel_sym_value_range = [3]
    same(compiled(model, config, dynamic=True), 2, 3, 5)
    assert [report["key"] for report in executor().explain()["static kernels"]] == [(3, 4)]


def test_an_input_that_the_graph_writes_is_written_once_by_the_first_call(build: Path) -> None:
    def step(cache: Tensor, x: Tensor) -> Tensor:
        cache.add_(x)
        return cache * 2

    call = compiled(step, config_for(build))
    cache, x = torch.zeros(4).to("npu"), torch.ones(4).to("npu")
    for number in range(1, 4):
        torch.testing.assert_close(call(cache, x).cpu(), torch.full((4,), 2.0 * number))
        torch.testing.assert_close(cache.cpu(), torch.full((4,), float(number)))


def test_a_replay_never_comes_near_static_kernels(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = compiled(model, config_for(build))
    same(call, 2)
    w, x = torch.randn(4, 4).to("npu"), torch.randn(2, 4).to("npu")

    def never(*_: object) -> None:
        raise AssertionError("a replay asked about static kernels")

    for name in ("wants", "around"):
        monkeypatch.setattr(StaticKernels, name, never)
    for _ in range(3):
        torch.testing.assert_close(call(x, w), model(x, w))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("eagerly", [False, True])
def test_a_failure_of_the_compiler_leaves_the_model_right(
    build: Path, monkeypatch: pytest.MonkeyPatch, eagerly: bool
) -> None:
    monkeypatch.setenv("AIR_SIM_OP_COMPILER_FAIL", "1")
    call = compiled(model, config_for(build, debug__run_eagerly=eagerly))
    with pytest.warns(StaticKernelWarning, match="arranged failure after 1 of 3") as caught:
        same(call, 2, 2)
    assert len(caught) == 1
    (report,) = executor().explain()["static kernels"]
    assert "exit code 1" in " ".join(report["failure"].split())


def profiler() -> Any:
    from torch_npu import profiler as ascend

    return ascend.profile(
        activities=[ascend.ProfilerActivity.NPU],
        experimental_config=ascend._ExperimentalConfig(record_op_args=True),
        schedule=ascend.schedule(wait=0, warmup=0, active=1, repeat=1, skip_first=0),
    )


def test_S12_static_kernels_switched_on_under_the_profiler_are_refused(
    build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(build)
    with profiler(), pytest.raises(BackendCompilerFailed, match="skip_first above 0"):
        same(compiled(model, config_for(build)), 2)


def test_S12_a_profiler_switched_on_after_static_kernels_is_found_at_the_next_shape(
    build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(build)
    call = compiled(model, config_for(build), dynamic=True)
    same(call, 2)
    with profiler(), pytest.warns(StaticKernelWarning, match="record_op_args=True is recording"):
        same(call, 2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", StaticKernelWarning)
        same(call, 5)
    assert operators_compiled(build) == [3, 3], "the shape met under the profiler has none"


def test_S06_max_autotune_ignores_static_kernels_with_a_notice(build: Path) -> None:
    config = config_for(build, debug__run_eagerly=True)
    config.mode = "max-autotune"
    same(compiled(model, config), 2)
    notices = [str(notice) for notice in _records.alive()[-1][0].settings.notices]
    assert any("_aclnn_static_shape_kernel" in notice for notice in notices)
    assert operators_compiled(build) == []


def test_S09_a_build_directory_that_is_gone_is_made_again(build: Path) -> None:
    config = config_for(build)
    build.rmdir()
    same(compiled(model, config), 2)
    assert operators_compiled(build)


def test_S09_a_build_directory_that_cannot_be_made_is_an_error_before_any_work(build: Path) -> None:
    config = config_for(build)
    build.rmdir()
    build.write_text("a file")
    with pytest.raises(BackendCompilerFailed, match="no directory"):
        same(compiled(model, config), 2)


@pytest.mark.parametrize("settings", [{}, {"mode": "max-autotune", "air__engine": "ge_session"}])
def test_S06_a_graph_on_the_host_of_an_npu_runs_without_what_is_for_the_npu(
    settings: dict[str, Any], build: Path
) -> None:
    def counted(x: Tensor, lengths: Tensor) -> Tensor:
        y = x.relu() + 1
        torch._dynamo.graph_break()
        longest = lengths.cumsum(0) + 1  # a graph of its own, of tensors on the host
        torch._dynamo.graph_break()
        return y * int(longest[-1])

    x, lengths = torch.randn(2, 3, device="npu"), torch.tensor([1, 2])
    run = compiled(counted, config_for(build, **settings))
    torch.testing.assert_close(run(x, lengths).cpu(), counted(x.cpu(), lengths))
    notices = [str(notice) for record, _ in _records.alive() for notice in record.settings.notices]
    assert any("this graph runs on the host" in notice for notice in notices)
