"""Whole ways over a device or air-sim: models, files in both directions, options, updates without copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func

import air_geir
from air_config import CompilerConfig, Context, resolve
from air_geir import _engines, file
from air_geir.engines import EngineOptions, NpuDevice, bind, engine_options
from air_geir.export import dynamo_export
from air_geir.program import ArgInput, GraphOutput, Program
from air_geir.reference import ReferenceEngine
from air_geir.verify import verify_model

torch_npu = pytest.importorskip("torch_npu")
pytestmark = [
    pytest.mark.npu, pytest.mark.filterwarnings("ignore::FutureWarning"), pytest.mark.usefixtures("device_engine")
]  # fmt: skip
SETTINGS = resolve(CompilerConfig(), Context(device="npu"))


class Block(torch.nn.Module):
    """A transformer block."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(32), torch.nn.LayerNorm(32)
        self.qkv, self.out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)
        self.up, self.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(batch, tokens, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = torch.softmax(q @ k.transpose(-1, -2) * 8**-0.5, -1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        result: torch.Tensor = x + self.down(torch.relu(self.up(self.norm2(x))))
        return result


def from_file(path: Path) -> Program:
    graph = file.read(path)
    count = len(graph.outputs)
    inputs = tuple(map(ArgInput, range(len(graph.inputs))))
    return Program(graph, inputs, tuple(map(GraphOutput, range(count))), len(inputs))


def compiled(model: Any, seen: list[air_geir.Executable], *, dynamic: bool = False) -> Callable[..., Any]:
    def inner(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        executable = air_geir.compile_graph(gm, inputs, settings=SETTINGS)
        seen.append(executable)

        def run(args: list[Any]) -> list[Any]:
            return executable(*args)

        run._boxed_call = True  # type: ignore[attr-defined]  # read by AOTAutograd
        return run

    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=inner, inference_compiler=inner, keep_inference_input_mutations=True)
    return torch.compile(model, backend=backend, dynamic=dynamic, fullgraph=True)


def test_a_block_written_by_us_runs_in_an_engine(tmp_path: Path, device_engine: str) -> None:
    torch.manual_seed(0)
    model, x = Block().eval(), torch.randn(2, 5, 32)
    made = dynamo_export(x, model=model, export_path=tmp_path)
    program = from_file(made.model)
    options = engine_options(SETTINGS, program, NpuDevice.current())
    run = bind(program, _engines.ENGINES[device_engine]().compile(program, options))
    (result,) = run(x.to("npu"))
    torch.testing.assert_close(result.cpu(), model(x), atol=1e-5, rtol=1e-5)


def test_a_block_written_by_torchair_runs_on_the_reference_engine(tmp_path: Path) -> None:
    import torchair  # type: ignore[import-not-found]  # part of torch_npu

    torch.manual_seed(0)
    model, x = Block().eval(), torch.randn(2, 5, 32)
    with torch.no_grad():
        expected = model(x)
        torchair.dynamo_export(
            x.to("npu"), model=model.to("npu"), export_path=str(tmp_path), export_name="theirs"
        )
    (path,) = tmp_path.glob("*.air")
    assert verify_model(file.parse_model(path.read_bytes())) == []
    program = from_file(path)
    (result,) = bind(program, ReferenceEngine().compile(program, EngineOptions({}, {})))(x)
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=1e-5)
    again = file.to_bytes(program.graph)
    assert file.to_bytes(file.from_bytes(again)) == again


def test_s15_a_cache_is_written_in_place() -> None:
    def step(cache: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        cache.copy_(cache * 0.5 + row)
        return cache.sum(0)

    seen: list[air_geir.Executable] = []
    run = compiled(step, seen)
    cache, row = torch.randn(4, 8, device="npu"), torch.randn(8, device="npu")
    expected, address = cache * 0.5 + row, cache.data_ptr()
    with torch.no_grad():
        result = run(cache, row)
    torch.testing.assert_close(cache, expected)
    torch.testing.assert_close(result, expected.sum(0))
    assert cache.data_ptr() == address
    assert seen[0].program.assigned
    assert not list(seen[0].program.graph.of_type("Assign", "TensorMove"))


def test_a_graph_runs_in_inference_mode() -> None:
    run = compiled(lambda x: x * 2, [])
    x = torch.arange(6.0, device="npu")
    with torch.inference_mode():
        for _ in range(2):
            assert torch.equal(run(x).cpu(), x.cpu() * 2)


def test_a_constant_on_the_device_is_shown_while_torch_traces() -> None:
    """The compiler is called under the tracer's fake mode, in which no real tensor can be read."""
    shown: list[str] = []

    def inner(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return air_geir.compile_graph(
            gm,
            inputs,
            settings=SETTINGS,
            observe=lambda stage, graph: shown.append(air_geir.dump.to_py(graph)),
        )

    run = torch.compile(
        lambda x: x.take(torch.tensor([0, 1], device=x.device)),
        backend=aot_autograd(fw_compiler=inner),
        dynamic=False,
    )
    x = torch.arange(6.0, device="npu")
    with torch.no_grad():
        assert run(x).tolist() == [0.0, 1.0]
    assert len(shown) == 2


@pytest.mark.parametrize(
    "write",
    [lambda a: a.fill_(3), lambda a: a.zero_(), lambda a: a.copy_(a.new_ones(4)), lambda a: a.add_(1)],
)
def test_an_argument_that_does_not_lie_dense_is_written_where_it_lies(write: Callable[..., Any]) -> None:
    """Also one that the graph does not read: nothing of it reaches the engine but the memory to write."""
    for place in ((slice(1, -1), slice(None, None, 2)), (slice(None), slice(4)), (slice(2, 4), slice(0, 4))):
        whole, expected = torch.arange(48.0, device="npu").reshape(6, 8), torch.arange(48.0).reshape(6, 8)
        torch._dynamo.reset()
        run = compiled(lambda a: [write(a)][1:], [])
        run(whole[place])
        write(expected[place])
        assert torch.equal(whole.cpu(), expected)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.softmax(-1),
        lambda x: x.log_softmax(0),
        lambda x: x.cummax(1).values,
        lambda x: x.cummin(1).values,
        lambda x: x.index_add(1, torch.tensor([1, 0], device=x.device), x[:, :2], alpha=2),
    ],
)
def test_values_and_gradients_on_the_graph_engine_equal_eager(function: Callable[..., Any]) -> None:
    def inner(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return make_boxed_func(air_geir.compile_graph(gm, inputs, settings=SETTINGS))

    torch._dynamo.reset()
    run = torch.compile(function, backend=aot_autograd(fw_compiler=inner), dynamic=False)
    x = torch.randn(3, 4, requires_grad=True)
    device = x.detach().to("npu").requires_grad_()
    expected, own = function(x), run(device)
    torch.testing.assert_close(own.cpu(), expected)
    weights = torch.randn(expected.shape)
    (wanted,) = torch.autograd.grad(expected, [x], weights)
    (given,) = torch.autograd.grad(own, [device], weights.to("npu"))
    torch.testing.assert_close(given.cpu(), wanted)


_PLACES = torch.tensor([0, 2, 2, 1, 0, 2])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.view_as_real(torch.fft.fft2(torch.complex(x, x))),
        lambda x: torch.view_as_real(torch.fft.ifft(torch.complex(x, x))),
        lambda x: torch.fft.irfft(torch.fft.rfft(x), n=6),
        lambda x: torch.nn.functional.fold(x.expand(4, 6).reshape(1, 4, 6), (3, 4), 2),
        lambda x: torch.nn.functional.interpolate(x.view(1, 1, 4, 6), (7, 9), mode="bilinear"),
        lambda x: torch.nn.functional.interpolate(x.view(1, 1, 4, 6), (7, 9), mode="bilinear", align_corners=True),
        lambda x: x.masked_scatter(x > 0, x.flip(0).reshape(-1)),
        lambda x: torch.nn.functional.pdist(x),
        lambda x: x.logcumsumexp(1),
        lambda x: x.scatter_reduce(1, _PLACES.to(x.device).expand(4, 6), x, "amax"),
        lambda x: x.scatter_reduce(1, _PLACES.to(x.device).expand(4, 6), x, "prod", include_self=False),
    ],
    ids=[
        "fft2", "ifft", "rfft and irfft", "fold", "bilinear", "bilinear of corners", "masked_scatter", "pdist",
        "logcumsumexp", "scatter the largest", "scatter a product",
    ],
)  # fmt: skip
def test_what_the_graph_engine_computes_is_what_the_cpu_does(
    function: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    torch._dynamo.reset()
    x = torch.randn(4, 6)
    with torch.no_grad():
        torch.testing.assert_close(compiled(function, [])(x.to("npu")).cpu(), function(x))


def _geglu(x: torch.Tensor) -> torch.Tensor:
    values, gate = x.chunk(2, -1)
    return values * torch.nn.functional.gelu(gate, approximate="tanh")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: torch_npu.npu_geglu(x, dim=-1, approximate=1)[0], _geglu),
        (lambda x: torch_npu.npu_swiglu(x), lambda x: torch.nn.functional.silu(x[:, :3]) * x[:, 3:]),
    ],
    ids=["geglu", "swiglu"],
)
def test_a_gate_of_torch_npu_is_on_the_graph_engine_what_it_is_in_plain_torch(
    function: Callable[[torch.Tensor], torch.Tensor], expected: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    torch._dynamo.reset()
    x = torch.randn(4, 6)
    with torch.no_grad():
        torch.testing.assert_close(compiled(function, [])(x.to("npu")).cpu(), expected(x))


def test_the_graph_engine_draws_by_a_key_without_a_sign() -> None:
    torch._dynamo.reset()
    with torch.no_grad():
        drawn = compiled(lambda x: torch.rand_like(x), [])(torch.empty(4000, device="npu")).cpu()
    assert float(drawn.min()) >= 0
    assert float(drawn.max()) < 1
    assert abs(float(drawn.mean()) - 0.5) < 0.05


def test_a_size_that_only_the_call_tells_is_no_size_of_the_graph() -> None:
    run = compiled(lambda a, b: b.new_ones((a.shape[0], 6)), [], dynamic=True)
    with torch.no_grad():
        for rows in (5, 3, 7):
            a, b = torch.randn(rows, 6, device="npu"), torch.randn(rows, 2, device="npu")
            assert run(a, b).shape == (rows, 6)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x > 0).nonzero() + 1,
        lambda x: x.masked_select(x > 0) * 2,
        lambda x: torch.unfold_copy(x.unbind(0)[3], -1, 1, 2),
    ],
    ids=["nonzero", "masked_select", "unfold_copy of a part"],
)
def test_sizes_that_values_decide_and_strides_in_a_part_are_the_engines(
    function: Callable[[torch.Tensor], torch.Tensor], device_engine: str
) -> None:
    seen: list[air_geir.Executable] = []
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run = compiled(function, seen)
        for seed in range(3):
            torch.manual_seed(seed)
            x = torch.randn(4, 6)
            torch.testing.assert_close(run(x.to("npu")).cpu(), function(x))
    assert [executable.engine for executable in seen] == [device_engine]
