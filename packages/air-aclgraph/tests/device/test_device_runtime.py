"""The accelerator runtime on an NPU, on air-sim or on a CUDA device: pools, streams, failures, host parameters."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

from aclgraph_backend import executable, settings
from air_aclgraph import AcceleratorRuntime, Executable, Request, compile_graph
from air_aclgraph._runtime import UpdatableCall
from air_aclgraph.errors import AclGraphError, CaptureFailed, Closed


def module(accelerator: str) -> Any:
    """torch's module of the device, as `torch.cuda`."""
    return torch.get_device_module(accelerator)


def graph_of(accelerator: str) -> Any:
    """A graph of torch's own for the device."""
    return module(accelerator).NPUGraph() if accelerator == "npu" else module(accelerator).CUDAGraph()


def block(x: Tensor, up: Tensor, down: Tensor) -> tuple[Tensor, ...]:
    for _ in range(3):
        x = x + torch.nn.functional.silu(x @ up) @ down
    return (x.sum(-1),)


def many_keys(runtime: AcceleratorRuntime, rows: tuple[int, ...], **options: object) -> Executable:
    up, down = (torch.randn(shape, device=runtime.device) for shape in ((64, 256), (256, 64)))
    x = torch.randn(max(rows), 64, device=runtime.device)
    run = executable(block, x, up, down, device=runtime.name, static=[1, 2],
                     runtime=runtime, dynamic=True, **options)  # fmt: skip
    for count in rows:
        x = torch.randn(count, 64, device=runtime.device)
        torch.testing.assert_close(run(x, up, down)[0], block(x, up, down)[0], rtol=1e-3, atol=1e-3)
    return run


def test_W27_eight_shapes_share_the_pool_of_the_largest(accelerator: str) -> None:
    alone, together = AcceleratorRuntime(f"{accelerator}:0"), AcceleratorRuntime(f"{accelerator}:0")
    one = many_keys(alone, (4096,))
    eight = many_keys(together, (4096, 3584, 3072, 2560, 2048, 1536, 1024, 512))
    assert len(eight.keys()) == 8
    assert together.pool_nbytes() <= 1.1 * alone.pool_nbytes()
    one.close()
    eight.close()


def test_W27_two_graphs_share_one_pool(accelerator: str) -> None:
    runtime = AcceleratorRuntime(f"{accelerator}:0")
    first = many_keys(runtime, (2048,))
    before = runtime.pool_nbytes()
    second = many_keys(runtime, (2048,))
    assert runtime.pool_nbytes() <= 1.1 * before
    first.close()
    second.close()


def test_a_closed_executable_gives_its_pool_back(accelerator: str) -> None:
    runtime = AcceleratorRuntime(f"{accelerator}:0")
    run = many_keys(runtime, (2048,))
    assert runtime.pool_nbytes()
    run.close()
    assert runtime.pool_nbytes() == 0


def test_A27_a_users_pool_is_used(accelerator: str) -> None:
    pool = module(accelerator).graph_pool_handle()
    run = executable(lambda x: (x + 1,), torch.ones(2, device=accelerator), device=accelerator,
                     aclgraph_config__use_custom_pool=pool)  # fmt: skip
    for _ in range(3):
        assert run(torch.ones(2, device=accelerator))[0].tolist() == [2.0, 2.0]
    pools = {tuple(s.get("segment_pool_id", ())) for s in module(accelerator).memory_snapshot()}
    assert tuple(pool) in pools


def test_random_numbers_differ_between_replays_and_follow_the_seed(accelerator: str) -> None:
    run = executable(lambda x: (x + torch.rand_like(x),), torch.zeros(64, device=accelerator), device=accelerator,
                     air__outputs="clone")  # fmt: skip
    x = torch.zeros(64, device=accelerator)
    run(x)
    module(accelerator).manual_seed(7)
    first, second = run(x)[0].tolist(), run(x)[0].tolist()
    module(accelerator).manual_seed(7)
    again = run(x)[0].tolist()
    assert first != second
    assert first == again


def test_calls_from_two_streams_are_ordered(accelerator: str) -> None:
    run = executable(
        lambda x: (x * 2,), torch.ones(1000, device=accelerator), device=accelerator, air__outputs="clone"
    )
    streams = [module(accelerator).Stream() for _ in range(2)]
    kept = []
    for number in range(10):
        with module(accelerator).stream(streams[number % 2]):
            x = torch.full((1000,), float(number), device=accelerator)
            kept.append(run(x)[0])
    module(accelerator).synchronize()
    assert [t[0].item() for t in kept] == [2.0 * n for n in range(10)]


def test_a_call_inside_somebody_elses_capture_becomes_part_of_it(accelerator: str) -> None:
    run = executable(lambda x: (x * 2,), torch.ones(4, device=accelerator), device=accelerator)
    x = torch.ones(4, device=accelerator)
    run(x)
    run(x)
    graph = graph_of(accelerator)
    with module(accelerator).graph(graph):
        (out,) = run(x)
    x.fill_(5.0)
    graph.replay()
    assert out.tolist() == [10.0] * 4
    assert any("another capture" in cause for cause in run.stats()["eager_calls"])


def test_a_synchronising_operator_fails_the_capture_and_the_next_call_works(accelerator: str) -> None:
    explode = [False]

    @torch.library.custom_op("air_aclgraph_test::syncs", mutates_args=())
    def syncs(x: Tensor) -> Tensor:
        if explode[0]:
            x.sum().item()
        return x + 1

    syncs.register_fake(lambda x: torch.empty_like(x))
    run = executable(lambda x: (torch.ops.air_aclgraph_test.syncs(x) * 2,), torch.ones(2, device=accelerator),
                     device=accelerator, air__warmup=0)  # fmt: skip
    x = torch.ones(2, device=accelerator)
    explode[0] = True
    with pytest.raises(AclGraphError, match="capture failed"):
        run(x)
    explode[0] = False
    for _ in range(3):
        assert run(x)[0].tolist() == [4.0, 4.0]
    assert run.stats()["capture_failures"] == 1


def test_a_garbage_collection_during_a_capture_does_no_harm(accelerator: str) -> None:
    @torch.library.custom_op("air_aclgraph_test::collects", mutates_args=())
    def collects(x: Tensor) -> Tensor:
        assert not gc.isenabled()
        return x + 1

    collects.register_fake(lambda x: torch.empty_like(x))
    run = executable(lambda x: (torch.ops.air_aclgraph_test.collects(x),), torch.ones(2, device=accelerator),
                     device=accelerator, air__warmup=0)  # fmt: skip
    run(torch.ones(2, device=accelerator))
    assert gc.isenabled()


def test_a_fork_is_refused_by_name(accelerator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = executable(lambda x: (x * 2,), torch.ones(4, device=accelerator), device=accelerator)
    run(torch.ones(4, device=accelerator))
    monkeypatch.setattr("air_aclgraph._executable.os.getpid", lambda: -1)
    run.invalidate()
    with pytest.raises(Closed, match="spawn"):
        run(torch.ones(4, device=accelerator))


def test_threads_of_two_executables_do_not_mix_the_shared_pool(accelerator: str) -> None:
    runs = [many_keys(AcceleratorRuntime(f"{accelerator}:0"), (64,), air__outputs="clone") for _ in range(2)]
    wrong: list[int] = []

    def work(run: Executable) -> None:
        _, up, down = run.inputs_of(run.keys()[0])
        for _ in range(10):
            x = torch.randn(64, 64, device=accelerator)
            if not torch.allclose(run(x, up, down)[0], block(x, up, down)[0], rtol=1e-3, atol=1e-3):
                wrong.append(1)

    threads = [threading.Thread(target=work, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_A31_every_capture_error_mode_captures(accelerator: str, mode: str) -> None:
    chosen = settings(accelerator, debug__aclgraph__capture_error_mode=mode)
    gm = torch.fx.experimental.proxy_tensor.make_fx(lambda x: (x + 1,))(torch.ones(2, device=accelerator))
    run = compile_graph(gm, [torch.ones(2, device=accelerator)], settings=chosen)
    for _ in range(2):
        assert run(torch.ones(2, device=accelerator))[0].tolist() == [2.0, 2.0]


def test_A31_another_thread_copies_to_the_device_while_a_capture_runs(accelerator: str) -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.ones(2, device=accelerator)
    copied = graph.call_function(_copied_by_another_thread, (x,))
    graph.output((graph.call_function(torch.ops.aten.add.Tensor, (copied, 1)),))
    run = compile_graph(torch.fx.GraphModule(torch.nn.Module(), graph), [torch.ones(2, device=accelerator)])
    for _ in range(2):
        assert run(torch.ones(2, device=accelerator))[0].tolist() == [2.0, 2.0]


def _copied_by_another_thread(x: Tensor) -> Tensor:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: torch.ones(2).to(x.device)).result()
    return x


@pytest.mark.npu("only CANN patches the parameters of a captured task")
def test_H11_a_length_of_the_attention_operator_changes_without_a_capture() -> None:
    import torch_npu

    def step(q: Tensor, k: Tensor, v: Tensor, first: int) -> tuple[Tensor, ...]:
        out, _ = torch_npu.npu_fused_infer_attention_score(
            q, k, v, num_heads=2, num_key_value_heads=2, input_layout="BSH", scale=0.25,
            actual_seq_lengths_kv=[first],
        )  # fmt: skip
        return (out,)

    q = torch.randn(1, 1, 32, device="npu", dtype=torch.float16)
    k, v = (torch.randn(1, 16, 32, device="npu", dtype=torch.float16) for _ in range(2))
    graph = torch.fx.Graph()
    places = [graph.placeholder(name) for name in ("q", "k", "v", "first")]
    for place, value in zip(places, (q, k, v, 5), strict=True):
        place.meta["val"] = value
    call = graph.call_function(
        torch.ops.npu.npu_fused_infer_attention_score.default, tuple(places[:3]),
        {"num_heads": 2, "num_key_value_heads": 2, "input_layout": "BSH", "scale": 0.25,
         "actual_seq_lengths_kv": [places[3]]},
    )  # fmt: skip
    out = graph.call_function(torch.ops.aten.mul.Tensor, (graph.call_function(_first, (call,)), 1))
    graph.output((out,))
    run = compile_graph(torch.fx.GraphModule(torch.nn.Module(), graph), [q, k, v, 5])
    for length in (5, 9, 3, 3, 16):
        (found,) = run(q, k, v, length)
        torch.testing.assert_close(found, step(q, k, v, length)[0], rtol=1e-2, atol=1e-2)
    assert run.stats()["captures"] == 1


@pytest.mark.npu("only CANN patches the parameters of a captured task")
def test_a_length_inside_a_scope_of_core_limits_is_patched_with_these_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    npu = module("npu")
    runtime = AcceleratorRuntime("npu:0")
    attention = torch.ops.npu.npu_fused_infer_attention_score.default
    call = UpdatableCall(attention, {"actual_seq_lengths_kv": "actual_seq_lengths_kv"})
    fixed = {"num_heads": 2, "num_key_value_heads": 2, "input_layout": "BSH", "scale": 0.25}
    q = torch.randn(1, 1, 32, device="npu", dtype=torch.float16)
    k, v = (torch.randn(1, 16, 32, device="npu", dtype=torch.float16) for _ in range(2))

    def body(*inputs: Tensor) -> tuple[Tensor, ...]:
        runtime.limit_cores(4, 8)
        out = runtime.updatable(call, inputs, {**fixed, "actual_seq_lengths_kv": [5]})
        runtime.restore_cores()
        return (out[0],)

    recording = runtime.record(body, (q, k, v), Request())
    before = npu.get_stream_limit(npu.current_stream())
    set_limit = npu.set_stream_limit
    asked: list[tuple[int, int]] = []

    def limited(stream: Any, cube: int, vector: int) -> None:
        asked.append((cube, vector))
        set_limit(stream, cube, vector)

    monkeypatch.setattr(npu, "set_stream_limit", limited)
    assert recording.replay_with is not None
    for length in (9, 3):
        recording.replay_with([{"actual_seq_lengths_kv": [length]}])
        expected = attention(q, k, v, **fixed, actual_seq_lengths_kv=[length])[0]
        torch.testing.assert_close(recording.outputs[0], expected, rtol=1e-2, atol=1e-2)
    restored = (before["cube_core_num"], before["vector_core_num"])
    assert asked == [(4, 8), restored] * 2
    recording.release()


def _first(values: tuple[Tensor, ...]) -> Tensor:
    return values[0]


def test_W26_what_an_operator_does_only_the_first_time_happens_before_the_capture(accelerator: str) -> None:
    started: list[float] = []

    @torch.library.custom_op("air_aclgraph_test::lazy", mutates_args=())
    def lazy(x: Tensor) -> Tensor:
        if not started:
            started.append(x.sum().item())  # a handshake, a table of constants: illegal inside a capture
        return x + started[0]

    lazy.register_fake(lambda x: torch.empty_like(x))
    x = torch.ones(2, device=accelerator)
    run = executable(lambda x: (torch.ops.air_aclgraph_test.lazy(x) * 2,), x, device=accelerator)
    for _ in range(3):
        assert run(x)[0].tolist() == [6.0, 6.0]
    assert run.stats()["capture_failures"] == 0
    assert run.stats()["captures"] == 1


@pytest.mark.npu("super kernels are CANN's")
def test_A50_a_captured_graph_is_optimised_into_super_kernels_with_the_options_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[object] = []
    optimise = module("npu").NPUGraph.super_kernel_optimize

    def noted(graph: object, *options: object) -> None:
        given.append(options)
        optimise(graph, *options)

    monkeypatch.setattr(module("npu").NPUGraph, "super_kernel_optimize", noted)
    run = executable(
        lambda x: (x * 2 + 1,), torch.ones(4, device="npu"), device="npu",
        experimental_config__aclgraph___super_kernel_optimize=True,
        experimental_config__aclgraph___super_kernel_optimize_options={"split_mode": 2},
        experimental_config__aclgraph___super_kernel_debug_options={"debug_sync_all": 1},
    )  # fmt: skip
    for number in range(3):
        assert run(torch.full((4,), float(number), device="npu"))[0].tolist() == [2.0 * number + 1] * 4
    assert given == [({"split_mode": 2}, {"debug_sync_all": 1})]


@pytest.mark.npu("super kernels are CANN's")
def test_super_kernels_that_cannot_be_made_fail_the_capture_and_the_next_call_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuses(graph: object, *options: object) -> None:
        raise RuntimeError("super kernel: error code is 507011")

    run = executable(
        lambda x: (x * 2,), torch.ones(4, device="npu"), device="npu",
        experimental_config__aclgraph___super_kernel_optimize=True,
    )  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(module("npu").NPUGraph, "super_kernel_optimize", refuses)
        with pytest.raises(CaptureFailed, match="507011"):
            run(torch.ones(4, device="npu"))
    assert not run.keys()
    for _ in range(2):
        assert run(torch.ones(4, device="npu"))[0].tolist() == [2.0] * 4
