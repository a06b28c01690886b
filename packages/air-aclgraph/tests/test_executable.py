"""Capture, replay, keys, eviction, recapture, failure, threads, forks."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.testing._internal.two_tensor import TwoTensor

from aclgraph_backend import Backend, executable, settings, traced, unpadded
from air_aclgraph import HostRuntime, compile_graph
from air_aclgraph.errors import Closed, IllegalDuringCapture, InputRefused, ResourcesExhausted


def affine(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    return (x @ w + 1,)


def scaled(x: Tensor) -> tuple[Tensor, ...]:
    return (x * x.shape[0],)


def test_a_second_call_replays(device: str) -> None:
    w, x = torch.randn(4, 4, device=device), torch.randn(3, 4, device=device)
    run = executable(affine, x, w, device=device, static=[1])
    for _ in range(4):
        x = torch.randn(3, 4, device=device)
        torch.testing.assert_close(run(x, w)[0], x @ w + 1)
    stats = run.stats()
    assert stats["captures"] == 1
    assert stats["replays"] >= 3
    assert stats["copies"] == stats["replays"]


def test_every_shape_has_a_key_of_its_own(device: str) -> None:
    run = executable(scaled, torch.randn(3, 2, device=device), device=device, dynamic=True)
    for rows in (3, 5, 3, 7, 5, 3):
        x = torch.randn(rows, 2, device=device)
        torch.testing.assert_close(run(x)[0], x * rows)
    assert run.stats()["captures"] == 3
    assert [entry["key"] for entry in run.explain()["keys"]] == [(7, 2), (5, 2), (3, 2)]


def test_N10_A29_the_least_recently_used_key_is_dropped_with_a_notice(
    device: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = executable(
        scaled, torch.randn(3, 2, device=device), device=device, dynamic=True,
        debug__aclgraph__static_capture_size_limit=2,
    )  # fmt: skip
    with caplog.at_level(logging.WARNING, "air_aclgraph"):
        for rows in (3, 5, 3, 7, 3, 5):
            x = torch.randn(rows, 2, device=device)
            torch.testing.assert_close(run(x)[0], x * rows)
    stats = run.stats()
    assert stats["keys"] == 2
    assert stats["evictions"] == 2
    assert not stats["eager_calls"]
    notices = [r for r in caplog.records if "static_capture_size_limit" in r.getMessage()]
    assert len(notices) == 1


def test_a_limit_of_bytes_drops_keys_too() -> None:
    run = executable(
        scaled, torch.randn(3, 2), dynamic=True, runtime=HostRuntime(), air__cache__limit_bytes=1000
    )
    for rows in (100, 60, 100):
        run(torch.randn(rows, 2))
    assert run.stats()["keys"] == 1
    assert run.stats()["evictions"] == 2


def test_A33_W07_a_moved_input_with_a_full_cache_captures_its_key_again_only(device: str) -> None:
    def step(cache: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        cache.add_(x)
        return (cache * 2,)

    x = torch.ones(2, 2, device=device)
    run = executable(step, torch.zeros(2, 2, device=device), x, device=device,
                     debug__aclgraph__static_capture_size_limit=1)  # fmt: skip
    held = []
    for _ in range(4):
        cache = torch.zeros(2, 2, device=device)
        held.append(cache)
        for count in (1, 2):
            torch.testing.assert_close(run(cache, x)[0].cpu(), torch.full((2, 2), 2.0 * count))
    stats = run.stats()
    assert stats["recaptures"] == {"mutated input moved": 3}
    assert not stats["evictions"]
    assert not stats["eager_calls"]


def test_W08_nothing_falls_back_to_eager_for_good(device: str) -> None:
    run = executable(scaled, torch.randn(2, 2, device=device), device=device, dynamic=True,
                     debug__aclgraph__static_capture_size_limit=1)  # fmt: skip
    for rows in (2, 3, 4, 5):
        run(torch.randn(rows, 2, device=device))
    before = run.stats()["replays"]
    x = torch.randn(5, 2, device=device)
    run(x)
    run(x)
    assert run.stats()["replays"] >= before + 2


def test_A30_force_recapture_captures_on_every_call(device: str) -> None:
    x = torch.randn(2, 2, device=device)
    run = executable(scaled, x, device=device, debug__aclgraph__force_recapture=True)
    for _ in range(3):
        torch.testing.assert_close(run(x)[0], x * 2)
    assert run.stats()["recaptures"] == {"force_recapture": 2}
    assert run.stats()["captures"] == 3


@pytest.mark.parametrize("move", ["data", "set_", "swap"])
def test_every_way_to_move_a_parameter_is_noticed(move: str, device: str) -> None:
    model = nn.Linear(4, 4).to(device)
    compiled = torch.compile(model, backend=Backend(device), dynamic=False)
    x = torch.randn(2, 4, device=device)
    with torch.no_grad():
        for _ in range(3):
            compiled(x)
        other = torch.randn(4, 4, device=device)
        if move == "data":
            model.weight.data = other
        elif move == "set_":
            model.weight.set_(other.untyped_storage(), 0, other.shape, other.stride())
        else:
            model.weight = nn.Parameter(other)
        for _ in range(3):
            torch.testing.assert_close(compiled(x), model(x))


def test_W10_a_parameter_that_moves_on_does_not_pile_up_captures(device: str) -> None:
    x = torch.randn(2, 4, device=device)
    run = executable(affine, x, torch.randn(4, 4, device=device), device=device, static=[1])
    weights = [torch.randn(4, 4, device=device) for _ in range(5)]
    for w in weights:
        torch.testing.assert_close(run(x, w)[0], x @ w + 1)
    assert run.stats()["keys"] == 1
    assert run.stats()["recaptures"] == {"static input moved": 2}  # then it is copied


def test_an_input_that_keeps_moving_is_copied_in_the_end(device: str) -> None:
    def step(cache: Tensor) -> tuple[Tensor, ...]:
        cache.add_(1)
        return (cache * 2,)

    run = executable(step, torch.zeros(2, device=device), device=device)
    caches = [torch.zeros(2, device=device) for _ in range(20)]
    for cache in caches:
        torch.testing.assert_close(run(cache)[0].cpu(), torch.full((2,), 2.0))
        torch.testing.assert_close(cache.cpu(), torch.ones(2))
    assert run.stats()["captures"] < 12
    assert any("carried" in line for line in run.explain()["history"])


def test_a_stable_input_is_bound_and_one_that_moves_is_copied_again(device: str) -> None:
    x = torch.randn(3, 4, device=device)
    w = torch.randn(4, 4, device=device)
    run = executable(affine, x, w, device=device, static=[1], air__adaptive_slots=3)
    for _ in range(8):
        x.normal_()
        torch.testing.assert_close(run(x, w)[0], x @ w + 1)
    assert run.explain()["keys"][0]["kinds"] == ["bound", "static"]
    y = torch.randn(3, 4, device=device)
    for _ in range(8):
        torch.testing.assert_close(run(y, w)[0], y @ w + 1)
    assert run.explain()["keys"][0]["kinds"] == ["copied", "static"]
    assert run.stats()["recaptures"] == {"stable input bound": 1, "bound input moved": 1}


def test_A25_H09_with_clone_input_off_a_persistent_buffer_is_not_copied(device: str) -> None:
    x, w = torch.randn(3, 4, device=device), torch.randn(4, 4, device=device)
    run = executable(affine, x, w, device=device, static=[1], debug__aclgraph__clone_input=False)
    for _ in range(4):
        x.normal_()
        torch.testing.assert_close(run(x, w)[0], x @ w + 1)
    assert run.stats()["copies"] == 0


def test_A32_frozen_parameter_does_not_check_parameters(device: str) -> None:
    x, w = torch.randn(3, 4, device=device), torch.randn(4, 4, device=device)
    run = executable(affine, x, w, device=device, static=[1], experimental_config__frozen_parameter=True)
    first = [run(x, w)[0].clone() for _ in range(2)][1]
    torch.testing.assert_close(run(x, torch.zeros_like(w))[0], first)
    assert not run.stats()["recaptures"]


def test_A59_without_validation_no_address_is_checked(device: str) -> None:
    x, w = torch.randn(3, 4, device=device), torch.randn(4, 4, device=device)
    run = executable(affine, x, w, device=device, static=[1],
                     debug__aclgraph__unsafe_skip_npugraph_capture_validation=True)  # fmt: skip
    first = [run(x, w)[0].clone() for _ in range(2)][1]
    torch.testing.assert_close(run(x, torch.zeros_like(w))[0], first)
    y = torch.randn(3, 4, device=device)
    torch.testing.assert_close(run(y, w)[0], y @ w + 1)
    assert run.explain()["options"]["debug.aclgraph.unsafe_skip_npugraph_capture_validation"]
    assert not run.stats()["recaptures"]


def test_warm_up_calls_run_before_the_capture() -> None:
    run = executable(scaled, torch.randn(2, 2), air__warmup=3)
    for _ in range(5):
        run(torch.randn(2, 2))
    assert run.stats()["eager_calls"] == {"warm-up": 2}
    assert run.stats()["captures"] == 1


def test_a_model_with_state_is_advanced_once_per_call(device: str) -> None:
    model = nn.BatchNorm1d(4).to(device).train()
    twin = nn.BatchNorm1d(4).to(device).train()
    compiled = torch.compile(model, backend=Backend(device))
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(8, 4, device=device)
            torch.testing.assert_close(compiled(x), twin(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model.running_mean, twin.running_mean)
    assert model.num_batches_tracked is not None
    assert model.num_batches_tracked.item() == 4


def test_A58_counters_tell_captures_calls_and_causes() -> None:
    run = executable(affine, torch.randn(3, 4), torch.randn(4, 4), static=[1])
    x = torch.randn(3, 4)
    for w in (torch.randn(4, 4), torch.randn(4, 4)):
        run(x, w)
        run(x, w)
    assert counters["air"]["calls"] == 4
    assert counters["air"]["captures"] == 2
    assert counters["air"]["recaptures: static input moved"] == 1
    stats = run.stats()
    for name in ("replays", "copies", "copied_bytes", "capture_seconds"):
        assert counters["air"][name] == stats[name], name
    assert stats["copied_bytes"] == x.nbytes * stats["replays"] > 0
    counters.clear()
    run(x, w)
    assert dict(counters["air"]) == {"calls": 1, "replays": 1, "copies": 1, "copied_bytes": x.nbytes}


def needs_the_host(x: Tensor) -> tuple[Any, ...]:
    return (x * x.sum().item(),)


def test_an_operator_that_needs_the_host_is_refused_with_its_line() -> None:
    gm = torch.fx.symbolic_trace(lambda x: (torch.ops.aten.nonzero(x),))
    run = compile_graph(gm, [torch.ones(2)])
    with pytest.raises(IllegalDuringCapture, match=r"nonzero.*shape of its result depends on the data"):
        run(torch.ones(2))
    assert run.stats()["capture_failures"] == 1


def test_an_exception_in_the_middle_of_a_capture_leaves_the_next_call_working(device: str) -> None:
    explode = [True]

    @torch.library.custom_op("air_aclgraph_test::fragile", mutates_args=())
    def fragile(x: Tensor) -> Tensor:
        if explode[0]:
            raise ZeroDivisionError("in the middle")
        return x + 1

    fragile.register_fake(lambda x: torch.empty_like(x))
    x = torch.randn(2, 2, device=device)
    run = executable(lambda x: (torch.ops.air_aclgraph_test.fragile(x * 2) * 3,), x, device=device)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="in the middle"):
            run(x)
    explode[0] = False
    for _ in range(3):
        torch.testing.assert_close(run(x)[0], (x * 2 + 1) * 3)
    assert run.stats()["captures"] == 1


def test_threads_share_an_executable(device: str) -> None:
    w = torch.randn(4, 4, device=device)
    run = executable(
        affine, torch.randn(3, 4, device=device), w, device=device, static=[1], air__outputs="clone"
    )
    problems: list[str] = []

    def work(seed: int) -> None:
        for number in range(30):
            x = torch.full((3, 4), float(seed * 100 + number), device=device)
            if not torch.allclose(run(x, w)[0], x @ w + 1, rtol=1e-4, atol=1e-2):
                problems.append(f"thread {seed}, call {number}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_a_forked_process_can_call_what_its_parent_captured() -> None:
    w = torch.randn(4, 4)
    run = executable(affine, torch.randn(3, 4), w, static=[1])
    run(torch.randn(3, 4), w)
    child = os.fork()
    if child == 0:
        x = torch.randn(3, 4)
        os._exit(0 if torch.allclose(run(x, w)[0], x @ w + 1) else 1)
    assert os.waitpid(child, 0)[1] == 0
    run(torch.randn(3, 4), w)


def test_a_closed_executable_says_so() -> None:
    run = executable(scaled, torch.randn(2, 2))
    run(torch.randn(2, 2))
    run.close()
    with pytest.raises(Closed, match="was closed"):
        run(torch.randn(2, 2))
    assert run.stats()["keys"] == 0


def test_N09_the_plan_refuses_a_capture_the_device_cannot_hold() -> None:
    from air_aclgraph import Limits

    class Small(HostRuntime):
        def limits(self) -> Limits:
            return Limits(streams=2)

    run = executable(scaled, torch.randn(2, 2), dynamic=True, runtime=Small())
    run(torch.randn(2, 2))
    run(torch.randn(3, 2))
    with pytest.raises(ResourcesExhausted, match="3 streams; the device has 2"):
        run(torch.randn(4, 2))
    torch.testing.assert_close(run(torch.ones(3, 2))[0], torch.full((3, 2), 3.0))


def test_N09_explain_prints_the_plan_and_the_inputs() -> None:
    run = executable(affine, torch.randn(3, 4), torch.randn(4, 4), static=[1])
    run(torch.randn(3, 4), torch.randn(4, 4))
    told = run.explain()
    assert told["plan"]["tasks"] == 2
    assert told["plan"]["streams"] == 1
    assert told["plan"]["pool_bytes"] >= 48
    assert [entry["kind"] for entry in told["inputs"]] == ["copied", "static"]


def test_a_tensor_of_another_class_is_a_tensor() -> None:
    class Mine(Tensor):
        pass

    run = executable(scaled, torch.randn(2, 2))
    for _ in range(3):
        x = torch.randn(2, 2)
        (result,) = run(x.as_subclass(Mine))
        assert type(result) is Tensor
        torch.testing.assert_close(result, scaled(x)[0])


def test_a_tensor_that_stands_for_others_is_refused_by_name() -> None:
    run = executable(scaled, torch.randn(2, 2))
    with pytest.raises(InputRefused, match=r"x_1.*TwoTensor"):
        run(TwoTensor(torch.randn(2, 2), torch.randn(2, 2)))


def test_a_sparse_input_is_refused_by_name() -> None:
    gm = traced(scaled, torch.randn(2, 2))
    with pytest.raises(InputRefused, match=r"x_1.*sparse"):
        compile_graph(gm, [torch.randn(2, 2).to_sparse()])


def test_W16_signal_handlers_and_logging_of_the_process_are_untouched() -> None:
    handlers = [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)]
    root, logger_class = list(logging.getLogger().handlers), logging.getLoggerClass()
    run = executable(scaled, torch.randn(2, 2))
    run(torch.randn(2, 2))
    run.close()
    assert handlers == [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)]
    assert root == logging.getLogger().handlers
    assert logger_class is logging.getLoggerClass()


def test_a_pinned_call_takes_the_copied_inputs_only(device: str) -> None:
    x, w = torch.randn(3, 4, device=device), torch.randn(4, 4, device=device)
    run = executable(affine, x, w, device=device, static=[1])
    pinned = run.pin(x, w)
    for _ in range(3):
        x = torch.randn(3, 4, device=device)
        torch.testing.assert_close(pinned(x)[0], x @ w + 1)
    with pytest.raises(InputRefused, match="takes 1 inputs, got 2"):
        pinned(x, w)
    run.invalidate()
    with pytest.raises(Closed, match="captured again, dropped or closed"):
        pinned(x)


def test_a_pinned_call_records_nothing_for_gradients_and_casts_nothing(device: str) -> None:
    x, w = torch.randn(3, 4, device=device), torch.randn(4, 4, device=device)
    with torch.no_grad():
        pinned = executable(affine, x, w, device=device, static=[1]).pin(x, w)
    with torch.enable_grad(), torch.autocast(device, torch.bfloat16):
        for given in (x.clone().requires_grad_(), torch.randn(3, 4, device=device)):
            result = pinned(given)[0]
            assert (result.requires_grad, result.dtype) == (False, torch.float32)
    torch.testing.assert_close(result, given @ w + 1)


def test_settings_reach_the_executable() -> None:
    chosen = settings("cpu", debug__aclgraph__static_capture_size_limit=3, air__outputs="guarded")
    run = unpadded(traced(scaled, torch.randn(2, 2)), [torch.randn(2, 2)], settings=chosen)
    assert (run.options.limit, run.options.outputs) == (3, "guarded")


def test_W17_a_graph_with_a_quantised_matmul_compiles_and_replays() -> None:
    from air_fxpasses import npu_ops

    if not hasattr(torch.ops.npu, "npu_weight_quant_batchmatmul"):
        npu_ops.declare()
    x, weight, scale = torch.randn(2, 4), torch.randint(-8, 8, (4, 6), dtype=torch.int8), torch.rand(6)
    op = torch.ops.npu.npu_weight_quant_batchmatmul.default
    graph = torch.fx.Graph()
    places = [graph.placeholder(name) for name in ("x", "weight", "scale")]
    graph.output((graph.call_function(op, tuple(places)),))
    run = compile_graph(
        torch.fx.GraphModule(nn.Module(), graph), [x, weight, scale], settings=settings("cpu")
    )
    for _ in range(3):
        x = torch.randn(2, 4)
        torch.testing.assert_close(run(x, weight, scale)[0], x @ (weight * scale), rtol=1e-4, atol=1e-4)


def test_two_forward_passes_before_their_backward_passes_keep_what_each_saved(device: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 2)).to(device)
    compiled = torch.compile(model, backend=Backend(device, air__outputs="clone"))

    def gradients(forward: Callable[[Tensor], Tensor]) -> list[Tensor]:
        model.zero_grad()
        ones, steps = torch.ones(3, 4, device=device), torch.arange(12.0, device=device).view(3, 4) / 5
        first, second = forward(ones).sum(), (forward(steps) ** 2).sum()
        first.backward()
        second.backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    expected = gradients(model)
    for _ in range(3):
        for found, wanted in zip(gradients(compiled), expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_N25_a_carried_input_that_moves_over_an_input_known_as_clear_is_seen(device: str) -> None:
    def step(cache: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        cache.add_(1)
        return (x * 2,)

    run = executable(step, torch.zeros(4, device=device), torch.ones(4, device=device), device=device)
    alive = [torch.zeros(4, device=device) for _ in range(12)]
    x = torch.ones(4, device=device)
    for cache in alive:
        run(cache, x)
    assert any("carried" in line for line in run.explain()["history"])
    for _ in range(2):
        assert run(alive[0], x)[0].tolist() == [2.0] * 4, "x is clear of what is written"
    assert run(x, x)[0].tolist() == [4.0] * 4, "eager reads x after the write"
    assert x.tolist() == [2.0] * 4


def test_N25_buffers_that_only_older_captures_have_are_counted(device: str) -> None:
    run = executable(lambda x: (x.sum(),), torch.ones(4, 2, device=device), device=device, dynamic=True)
    sizes = (100, 1000, 10_000)
    for rows in sizes:
        run(torch.ones(rows, 2, device=device))
    held = {c.inputs[0].untyped_storage()._cdata for c in run._captured.values()}
    assert len(held) == len(sizes), "each was larger than those before"
    pool = run.runtime.pool_nbytes() + sum(c.nbytes for c in run._captured.values())
    assert run.stats()["bytes"] == pool + sum(8 * rows for rows in sizes)


def test_N25_a_limit_of_bytes_holds_for_the_buffers_of_older_captures() -> None:
    run = executable(
        lambda x: (x.sum(),),
        torch.ones(4, 2),
        dynamic=True,
        runtime=HostRuntime(),
        air__cache__limit_bytes=20_000,
    )
    for rows in range(200, 2000, 100):
        run(torch.ones(rows, 2))
        assert run.nbytes <= 20_000 + 8 * rows + 64
    assert run.stats()["evictions"] > 0
