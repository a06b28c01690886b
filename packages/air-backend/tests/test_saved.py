"""What torch's cache keeps of a compilation is found by the next one, and lowered by the options of that one."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch._dynamo.utils import counters
from torch._inductor.utils import fresh_cache

import air_backend
from air_backend import _saved
from air_backend._compilation import JOINT_GRAPH, Compilation
from air_backend._keeping import keeping
from air_backend._native_objects import native_objects_by_type
from air_backend._records import alive
from air_backend.errors import CannotSave
from air_backend.inference import set_dim_buckets, set_dim_gears
from air_config import patch

MODES = ("reduce-overhead", "max-autotune")
X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
Y = torch.randn(8, 5, generator=torch.Generator().manual_seed(1))


@pytest.fixture(autouse=True)
def own_cache() -> Iterator[None]:
    with fresh_cache():
        counters.clear()
        yield


def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    z = torch.relu(x @ y)
    x.add_(1)
    return z.sum(0), (z * 2).t()


def compiled(
    function: Callable[..., Any], mode: str = "max-autotune", *, dynamic: bool | None = None, **options: Any
) -> Any:
    torch._dynamo.reset()
    wanted = {"air.cache.save": True, "mode": mode, **options}
    return torch.compile(function, backend="air", options=wanted, fullgraph=True, dynamic=dynamic)


def looked_up() -> tuple[int, int]:
    """How many graphs torch's cache had, and how many it had not."""
    found = counters["aot_autograd"]
    return found["autograd_cache_hit"], found["autograd_cache_miss"]


def check(function: Any, x: Tensor, y: Tensor) -> None:
    given, same = x.clone(), x.clone()
    with torch.no_grad():
        torch.testing.assert_close(function(given, y), step(same, y))
    assert torch.equal(given, same)


@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("mode", MODES)
def test_N18_the_next_compilation_finds_the_traced_graph(mode: str, dynamic: bool | None) -> None:
    check(compiled(step, mode, dynamic=dynamic), X, Y)
    assert looked_up() == (0, 1)
    function = compiled(step, mode, dynamic=dynamic)
    check(function, X, Y)
    assert looked_up() == (1, 1)
    if dynamic:
        check(function, torch.cat([X, X]), Y)
        assert looked_up() == (1, 1)


def test_N18_artifacts_go_to_another_machine(tmp_path: Path) -> None:
    check(compiled(step), X, Y)
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None
    data, info = saved
    assert info.aot_autograd_artifacts
    with fresh_cache():
        torch.compiler.load_cache_artifacts(data)
        check(compiled(step), X, Y)
    assert looked_up() == (1, 1)


def test_N18_the_graph_is_lowered_by_the_options_of_the_process_that_finds_it() -> None:
    check(compiled(step, "max-autotune"), X, Y)
    function = compiled(step, "reduce-overhead")
    check(function, X, Y)
    assert looked_up() == (1, 1)
    assert counters["air"]["captures"] == 1
    assert alive()[-1][0].settings.mode == "reduce-overhead"


def test_N18_another_version_of_air_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    check(compiled(step), X, Y)
    monkeypatch.setattr(_saved, "__version__", "0.0.0")
    check(compiled(step), X, Y)
    assert looked_up() == (0, 2)


def test_N18_an_annotation_that_torchs_key_lacks_is_in_ours() -> None:
    def on(tag: str) -> Callable[..., Tensor]:
        def two_streams(x: Tensor) -> Tensor:
            with air_backend.scope.npu_stream_switch(tag):
                y = x.sin()
            air_backend.scope.npu_wait_tensor(x, y)
            return y + x.cos()

        return two_streams

    for tag in ("first", "second", "second"):
        function = compiled(on(tag), "reduce-overhead")
        with torch.no_grad():
            torch.testing.assert_close(function(X), X.sin() + X.cos())
        assert tag in str(alive()[-1][0].plan.resources)
    assert looked_up() == (1, 2)


def test_N18_forward_and_backward_are_kept_together() -> None:
    def loss(x: Tensor, w: Tensor) -> Tensor:
        return torch.tanh(x @ w).square().sum()

    weight = Y.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(X, weight), weight)
    for _ in range(2):
        (gradient,) = torch.autograd.grad(compiled(loss, "reduce-overhead")(X, weight), weight)
        torch.testing.assert_close(gradient, expected)
    assert looked_up() == (1, 1)


def test_N18_a_damaged_entry_is_traced_anew() -> None:
    check(compiled(step), X, Y)
    folder = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]) / "aotautograd"
    for entry in folder.rglob("*"):
        if entry.is_file():
            entry.write_bytes(b"damaged")
    check(compiled(step), X, Y)
    assert looked_up() == (0, 2)
    shutil.rmtree(folder)
    check(compiled(step), X, Y)


class Counting(torch.nn.Module):
    """A region that is compiled once writes a buffer."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(4))

    @torch.compiler.nested_compile_region
    def counted(self, x: Tensor) -> Tensor:
        self.count.add_(1)
        return x + self.count

    def forward(self, x: Tensor) -> Tensor:
        return self.counted(self.counted(x))  # type: ignore[no-any-return]  # torch does not say what it gives


@pytest.mark.parametrize("mode", MODES)
def test_N18_a_graph_with_a_region_that_writes_is_found_whole(mode: str) -> None:
    for _ in range(2):
        counting = Counting()
        assert compiled(counting, mode)(torch.ones(2, 4))[0].tolist() == [4.0] * 4
        assert counting.count.tolist() == [2.0] * 4
    assert looked_up() == (1, 1)


def test_N18_a_graph_that_was_kept_and_cannot_be_used_is_compiled_anew_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unreadable(*_: Any) -> None:
        raise AttributeError("no such attribute")

    check(compiled(step), X, Y)
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(_saved._Pickler.__base__, "loads", unreadable)
        check(compiled(step), X, Y)
    (told,) = caplog.messages
    assert told.endswith("cannot be used, and is compiled anew: AttributeError: no such attribute")
    assert looked_up() == (0, 1)
    check(compiled(step), X, Y)
    assert looked_up() == (1, 1)


def test_nothing_is_kept_that_nobody_asked_for() -> None:
    torch._dynamo.reset()
    check(torch.compile(step, backend="air", fullgraph=True), X, Y)
    assert looked_up() == (0, 0)


def test_N18_what_cannot_be_kept_is_compiled_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    config = air_backend.CompilerConfig()
    config.air.cache.save = True
    backend = air_backend.get_npu_backend(
        compiler_config=config, custom_decompositions={torch.ops.aten.relu.default: lambda x: x.clamp(min=0)}
    )
    torch._dynamo.reset()
    with caplog.at_level(logging.WARNING):
        check(torch.compile(step, backend=backend, fullgraph=True), X, Y)
    assert (
        "air.cache.save: this graph is compiled and not kept: the graph depends on custom_decompositions"
        in caplog.text
    )
    assert looked_up() == (0, 0)


@pytest.mark.parametrize("is_trained", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings(
    "ignore:NestedTensor does not implement", "error::air_backend.eager_calls.NotTraced"
)
def test_N18_a_graph_that_cannot_be_written_is_compiled_and_says_why(
    mode: str, is_trained: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def waves(x: Tensor, y: Tensor) -> Tensor:
        return x.sin() * y.sum()

    parts = [torch.randn(length, 4) for length in (2, 3)]
    ragged = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=is_trained)
    function = compiled(waves, mode)
    with caplog.at_level(logging.WARNING, "air_backend"):
        torch.testing.assert_close(function(ragged, Y).values(), waves(ragged, Y).values())
        if is_trained:
            (found,) = torch.autograd.grad(function(ragged, Y).values().sum(), ragged)
            torch.testing.assert_close(found.values(), ragged.values().cos() * Y.sum())
    told = [one for one in caplog.messages if "is compiled and not kept: its graph cannot be written" in one]
    assert len(told) == counters["air"]["graphs"] == 1 + is_trained
    assert counters["aot_autograd"]["autograd_cache_saved"] == 0


@pytest.fixture
def unwritable(monkeypatch: pytest.MonkeyPatch) -> None:
    """No graph can be written."""

    def dumps(*_: Any) -> bytes:
        raise TypeError("cannot pickle it")

    monkeypatch.setattr(_saved._Pickler, "dumps", dumps)


@pytest.mark.usefixtures("unwritable")
def test_N18_no_entry_is_made_of_a_graph_that_cannot_be_written() -> None:
    for _ in range(2):
        check(compiled(step), X, Y)
    assert looked_up() == (0, 2)
    assert counters["aot_autograd"]["autograd_cache_saved"] == 0


@pytest.mark.usefixtures("unwritable")
def test_N18_aot_compile_says_that_a_graph_cannot_be_written() -> None:
    torch._dynamo.reset()
    with torch.no_grad(), torch._dynamo.config.patch(enable_aot_compile=True):
        function = torch.compile(step, backend="air", fullgraph=True)
        with pytest.raises(CannotSave, match=r"cannot be written \(TypeError: cannot pickle it\)"):
            function.aot_compile(((X.clone(), Y), {}))  # type: ignore[attr-defined]


def test_nothing_is_read_from_a_cache_that_others_may_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(shared / "cache"))
    with caplog.at_level(logging.WARNING):
        check(compiled(step), X, Y)
    assert f"{shared} others may write to it" in caplog.text
    assert "TORCHINDUCTOR_CACHE_DIR" in caplog.text
    assert looked_up() == (0, 0)
    shared.chmod(0o755)
    check(compiled(step), X, Y)
    assert looked_up() == (0, 1)


@pytest.mark.parametrize("mode", MODES)
def test_N18_torchs_aot_compile_writes_a_function_that_torch_loads(mode: str, tmp_path: Path) -> None:
    torch._dynamo.reset()
    with torch.no_grad(), torch._dynamo.config.patch(enable_aot_compile=True):
        function = torch.compile(step, backend="air", options={"mode": mode}, fullgraph=True)
        traced = function.aot_compile(((X.clone(), Y), {}))  # type: ignore[attr-defined]
    check(traced, X, Y)
    traced.save_compiled_function(str(tmp_path / "step"))
    torch._dynamo.reset()
    counters.clear()
    with (tmp_path / "step").open("rb") as file:
        loaded = torch.compiler.load_compiled_function(file)
    check(loaded, X, Y)
    assert not counters["stats"], "nothing is traced"
    with torch.no_grad(), pytest.raises(RuntimeError, match="size mismatch"):
        loaded(torch.cat([X, X]), Y)


def test_N18_aot_compile_says_that_the_cache_it_needs_is_switched_off() -> None:
    torch._dynamo.reset()
    off = torch._functorch.config.patch(enable_autograd_cache=False)
    with torch.no_grad(), torch._dynamo.config.patch(enable_aot_compile=True), off:
        function = torch.compile(step, backend="air", fullgraph=True)
        with pytest.raises(CannotSave, match="AOTAutograd is switched off"):
            function.aot_compile(((X.clone(), Y), {}))  # type: ignore[attr-defined]


def test_the_environment_and_a_patch_decide_whether_a_graph_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    config = air_backend.CompilerConfig()
    graph = fx.Graph()
    graph.output(graph.placeholder("x"))
    gm = fx.GraphModule({}, graph)
    assert keeping(gm, config, {}) == "no"
    with patch({"air.cache.save": True}):
        assert keeping(gm, config, {}) == "cache"
    monkeypatch.setenv("AIR_CACHE_SAVE", "1")
    assert keeping(gm, config, {}) == "cache"


def test_a_joint_graph_by_a_patch_has_a_key_of_its_own() -> None:
    keys = []
    for joint in (False, True):
        gm = fx.GraphModule({}, fx.Graph())
        with patch({JOINT_GRAPH: joint}):
            _saved._mark(gm, Compilation(air_backend.CompilerConfig()))
        keys.append(vars(gm)["_air_key"])
    assert keys[0] != keys[1]


def test_files_of_cache_compile_know_streams_and_events_by_numbers_and_what_torch_writes_does_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from torch._dynamo.graph_bytecode_inputs import get_external_object_by_index

    config = air_backend.CompilerConfig()
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(get_external_object_by_index, (0,))
    graph.call_function(torch.ops.streams.record_event.default, (0, 0))
    graph.output(x)
    gm = fx.GraphModule({}, graph)
    assert keeping(gm, config, {}) == "no"
    with torch._functorch.config.patch(bypass_autograd_cache_key=True):
        with native_objects_by_type():
            assert keeping(gm, config, {}) == "file"
            with pytest.raises(CannotSave, match="a stream or event object of this process"):
                keeping(fx.GraphModule({"body": gm}, body_called()), config, {})
        with pytest.raises(CannotSave, match="cache_compile keeps all of them"):
            keeping(gm, config, {})
    config.air.cache.save = True
    with caplog.at_level(logging.WARNING, "air_backend"):
        assert keeping(gm, config, {}) == "no"
    assert "a stream or event object of this process" in caplog.text


def body_called() -> fx.Graph:
    """A graph that reads a module named `body`, as one with the body of a higher-order operator does."""
    graph = fx.Graph()
    graph.output(graph.get_attr("body"))
    return graph


def declared(rows: int, declare: Callable[..., None], *sizes: int) -> Tensor:
    tensor = torch.randn(rows, 8)
    declare(tensor, {0: list(sizes)})
    return tensor


def test_N11_N18_a_graph_that_is_found_is_padded_to_the_buckets_that_were_declared() -> None:
    for count in (3, 4):
        function = compiled(lambda x: x * 2, "reduce-overhead")
        x = declared(count, set_dim_buckets, 4, 16)
        with torch.no_grad():
            torch.testing.assert_close(function(x), x * 2)
    assert looked_up() == (1, 1)
    ((_, run),) = alive()
    assert run.stats()["padded"] == 1


def test_N11_N18_other_buckets_are_another_graph() -> None:
    for sizes in ((4, 16), (4, 32), (4, 16)):
        function = compiled(lambda x: x * 2, "reduce-overhead")
        x = declared(3, set_dim_buckets, *sizes)
        with torch.no_grad():
            torch.testing.assert_close(function(x), x * 2)
    assert looked_up() == (1, 2)


def test_G16_N18_gears_are_not_kept_in_the_cache_and_a_warning_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    function = compiled(lambda x: x * 2)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "air_backend"):
        function(declared(4, set_dim_gears, 4, 8))
    assert "not kept: gears are declared on an input" in caplog.text
    assert looked_up() == (0, 0)


@pytest.mark.parametrize("save", [False, True])
def test_a_backward_may_run_twice_whenever_it_was_compiled(save: bool) -> None:
    weight = torch.randn(4, 4).requires_grad_()
    options: dict[str, Any] = {"mode": "max-autotune", "air.cache.save": save}
    x = torch.randn(3, 4)
    torch._dynamo.mark_dynamic(x, 0)
    for _ in range(2):
        torch._dynamo.reset()
        loss = torch.compile(lambda x: (x @ weight).sin().sum(), backend="air", options=options)(x)
        first, second = (torch.autograd.grad(loss, weight, retain_graph=True) for _ in range(2))
        torch.testing.assert_close(first, second)
