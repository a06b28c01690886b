"""TorchAir's own pages: the function that each page is about, in a program of ours."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from as_eager import assert_same, same_as_eager

MODES = ("reduce-overhead", "max-autotune")


def torchair() -> Any:
    import torchair  # type: ignore[import-not-found]

    return torchair


def compiled(function: Any, mode: str, dynamic: bool = False, **options: Any) -> Any:
    config = torchair().CompilerConfig()
    config.mode = mode
    for path, value in options.items():
        config.set(path.replace("__", "."), value)
    backend = torchair().get_npu_backend(compiler_config=config)
    return torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True)


@pytest.mark.parametrize("mode", MODES)
def test_torchairs_page_of_tagged_events(mode: str) -> None:
    event = torchair().ops.npu_create_tagged_event(tag=f"page {mode}")

    def model(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        total = a + b
        torchair().ops.npu_tagged_event_record(event)
        with torchair().scope.npu_stream_switch("1"):
            torchair().ops.npu_tagged_event_wait(event)
            product = total @ b
        return total, product

    run = compiled(model, mode)
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    with torch.no_grad():
        for _ in range(3):
            assert_same(run(x, y), (x + y, (x + y) @ y))


@pytest.mark.parametrize("mode", MODES)
def test_torchairs_page_of_record_and_wait(mode: str) -> None:
    def demo(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        with torchair().scope.npu_stream_switch("1"):
            product = torch.mm(x, x)
            positive = torch.abs(product)
            record = torchair().ops.record()
        total = torch.add(positive, 1)
        torchair().ops.wait([record])
        return total, torch.sub(x, product) + y

    run = compiled(demo, mode)
    x, y = torch.randn(2, 2), torch.randn(2, 2)
    with torch.no_grad():
        for _ in range(3):
            assert_same(run(x, y), ((x @ x).abs() + 1, x - x @ x + y))


@pytest.mark.parametrize("mode", MODES)
def test_torchairs_page_of_two_streams_with_priorities(mode: str) -> None:
    def model(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        total = a + b
        with torchair().scope.npu_stream_switch("2", 3):
            torchair().scope.npu_wait_tensor(b, total)
            product = a @ b
        return total, product

    run = compiled(model, mode)
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    with torch.no_grad():
        for _ in range(3):
            assert_same(run(x, y), (x + y, x @ y))


@pytest.mark.parametrize("mode", MODES)
def test_torchairs_page_of_running_eagerly(mode: str) -> None:
    def model(x: Tensor) -> Tensor:
        return (x @ x).relu()

    same_as_eager(compiled(model, mode, debug__run_eagerly=True), model, (torch.randn(4, 4),))


@pytest.mark.parametrize("kind", ["txt", "pbtxt", "py"])
def test_torchairs_page_of_dumped_graphs(kind: str, tmp_path: Path) -> None:
    def model(x: Tensor) -> Tensor:
        return x + 1

    run = compiled(model, "max-autotune", debug__graph_dump__type=kind, debug__graph_dump__path=str(tmp_path))
    same_as_eager(run, model, (torch.randn(4),))
    assert list(tmp_path.rglob(f"*.{kind}"))


def test_torchairs_page_of_passes_of_a_user() -> None:
    seen: list[str] = []

    def note(gm: Any, inputs: Any, config: Any) -> None:
        seen.append(type(config).__name__)

    def model(x: Tensor) -> Tensor:
        return x * 2

    run = compiled(model, "max-autotune", post_grad_custom_pre_pass=note, post_grad_custom_post_pass=note)
    same_as_eager(run, model, (torch.randn(4),))
    assert seen == ["CompilerConfig"] * 2


def test_torchairs_page_of_dimension_gears() -> None:
    def model(x: Tensor, y: Tensor) -> Tensor:
        return x @ y

    run = compiled(model, "max-autotune", dynamic=True)
    for rows in (2, 4):
        x, y = torch.randn(rows, 8), torch.randn(8, 3)
        torchair().inference.set_dim_gears(x, {0: [2, 4]})
        with torch.no_grad():
            assert_same(run(x, y), x @ y)


class Kept(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.linear(x)
        return result


def test_torchairs_page_of_readable_caches(tmp_path: Path) -> None:
    module = Kept()
    kept = torchair().inference.cache_compile(module.forward, cache_dir=str(tmp_path))
    same_as_eager(kept, module, (torch.randn(2, 4),))
    (file,) = (one for one in kept.folder.iterdir() if one.is_file())
    text = torchair().inference.readable_cache(str(file), print_output=False)
    assert "add" in text or "linear" in text or "mm" in text


def test_torchairs_page_of_the_logger() -> None:
    def model(x: Tensor) -> Tensor:
        return x - 1

    level = torchair().logger.level
    torchair().logger.setLevel(logging.DEBUG)
    try:
        same_as_eager(compiled(model, "max-autotune"), model, (torch.randn(4),))
        assert isinstance(torchair().logger, logging.Logger)
    finally:
        torchair().logger.setLevel(level)


def test_torchairs_page_of_replacing_a_pattern() -> None:
    def pattern(x: Tensor, y: Tensor) -> Any:
        return torch.ops.aten.sub.Tensor(torch.ops.aten.sinh.default(x), y)

    def replacement(x: Tensor, y: Tensor) -> Any:
        return torch.ops.aten.cosh.default(x) * 0 + torch.ops.aten.sinh.default(x) - y

    torchair().register_replacement(
        search_fn=pattern, replace_fn=replacement, example_inputs=(torch.randn(2, 2), torch.randn(2, 2))
    )

    def model(a: Tensor, b: Tensor) -> Tensor:
        return torch.sinh(a) - b

    same_as_eager(compiled(model, "reduce-overhead"), model, (torch.randn(2, 2), torch.randn(2, 2)))


def test_torchairs_page_of_exported_graphs(tmp_path: Path) -> None:
    class Add(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x + y

    torchair().dynamo_export(
        torch.randn(2, 2),
        torch.randn(2, 2),
        model=Add(),
        export_path=str(tmp_path / "out"),
        export_name="add",
    )
    assert list((tmp_path / "out").glob("add*"))


@pytest.mark.npu("the program of TorchAir's documents is for NPUs")
@pytest.mark.parametrize(
    "options", [{}, {"clone_input": False}, {"inplace_pass": False}, {"remove_noop_ops": False}]
)
def test_torchairs_page_of_npugraph_ex_and_its_options(options: dict[str, Any]) -> None:
    def model(x: Tensor, y: Tensor) -> Tensor:
        return (x.clone() + y).relu_()

    run = torch.compile(model, backend="npugraph_ex", options=options, fullgraph=True)
    same_as_eager(run, model, (torch.randn(4).to("npu"), torch.randn(4).to("npu")), repeat=3)


@pytest.mark.npu("the program of TorchAir's documents is for NPUs")
def test_torchairs_page_of_core_limits_of_the_callers_stream() -> None:
    npu: Any = vars(torch)["npu"]
    seen: list[tuple[int, int]] = []
    library = torch.library.Library("core_limits_page", "DEF")
    library.define("note(Tensor x) -> Tensor")

    def note(x: Tensor) -> Tensor:
        limits = npu.get_stream_limit(npu.current_stream())
        seen.append((limits["cube_core_num"], limits["vector_core_num"]))
        return x + 1

    library.impl("note", note, "PrivateUse1")
    library.impl("note", torch.empty_like, "Meta")
    run = torch.compile(torch.ops.core_limits_page.note.default, backend="npugraph_ex", dynamic=False)
    stream, x = npu.Stream(), torch.zeros(2, device="npu")
    with torch.no_grad(), npu.stream(stream):
        npu.set_stream_limit(stream, 2, 3)
        assert run(x).sum().item() == 2
        assert seen[-1] == (2, 3)
        seen.clear()
        torch._dynamo.reset()
        npu.reset_stream_limit(stream)
        assert run(x).sum().item() == 2
        assert seen[-1] != (2, 3)


@pytest.mark.npu("the program of TorchAir's documents is for NPUs")
def test_torchairs_page_of_native_streams_and_events() -> None:
    npu: Any = vars(torch)["npu"]

    def model(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        stream, event = npu.Stream(), npu.Event()
        total = a + b
        event.record()
        with npu.stream(stream):
            event.wait()
            product = total @ b
            done = npu.Event()
            done.record()
        done.wait()
        return total, product

    run = torch.compile(model, backend="npugraph_ex", fullgraph=True, dynamic=False)
    x, y = torch.randn(4, 4, device="npu"), torch.randn(4, 4, device="npu")
    with torch.no_grad():
        for _ in range(3):
            assert_same(run(x, y), (x + y, (x + y) @ y))
