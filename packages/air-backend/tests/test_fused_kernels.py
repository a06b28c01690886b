"""`air.kernels = "inductor"`: captures hold kernels that Inductor generated, with the results of eager."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import air_aclgraph
from air_aclgraph.errors import Unsupported
from air_aclgraph.fused import Ground, Region, refuse_absent
from air_backend import _pieces, _records, scope
from air_backend.errors import GraphSplit
from air_backend.inference import set_dim_buckets

GROUNDS: list[Any] = ["cpu"]
if torch.cuda.is_available():
    GROUNDS.append(pytest.param("cuda", marks=pytest.mark.accelerator))


@pytest.fixture(autouse=True, params=GROUNDS)
def ground(request: pytest.FixtureRequest) -> Iterator[str]:
    """The device of what names none. No generator of Inductor's comes with torch_npu, so an npu is none of these."""
    torch._dynamo.reset()
    _pieces._told.clear()
    torch.set_default_device(request.param if request.param != "cpu" else None)
    yield request.param
    torch.set_default_device(None)
    torch._dynamo.reset()


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    given = {"mode": "reduce-overhead", "air.kernels": "inductor", **options}
    return torch.compile(function, backend="air", options=given, fullgraph=True)


def explained() -> dict[str, Any]:
    told: dict[str, Any] = _records.alive()[-1][1].explain()
    return told


def kernels(told: dict[str, Any]) -> list[str]:
    """The generated kernels of a graph, for all sizes."""
    return [
        name for region in told["fused"]["regions"] for made in region["made"] for name in made["kernels"]
    ]


def same(got: Any, want: Any) -> None:
    torch.testing.assert_close(got, want)
    for one, other in zip(
        torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(want), strict=True
    ):
        assert one.stride() == other.stride()


def test_N24_a_chain_is_captured_as_one_generated_kernel(ground: str) -> None:
    def chain(x: Tensor, y: Tensor) -> Tensor:
        for _ in range(10):
            x = torch.relu(x * y + 0.5) - y.abs()
        return x

    run = compiled(chain)
    with torch.no_grad():
        for _ in range(4):
            x, y = torch.rand(4, 8), torch.rand(4, 8)
            same(run(x, y), chain(x, y))
    told = explained()
    assert len(kernels(told)) == 1
    assert [key["tasks"] for key in told["keys"]] == [1 if ground == "cpu" else 0], "a device does not tell"
    assert told["keys"][0]["replays"] > 0
    assert told["fused"]["stayed ATen"] == []


def test_N24_inputs_that_stay_are_read_where_they_are_and_moving_ones_are_copied_again() -> None:
    def scaled(x: Tensor, y: Tensor) -> Tensor:
        return (x * y).relu() + 1

    run = compiled(scaled)
    x, y = torch.rand(4, 8), torch.rand(4, 8)
    with torch.no_grad():
        for _ in range(8):
            x.normal_()
            same(run(x, y), scaled(x, y))
        assert explained()["keys"][0]["kinds"] == ["bound", "bound"]
        for _ in range(6):
            moved = torch.randn(4, 8)
            same(run(moved, y), scaled(moved, y))
        assert explained()["keys"][0]["kinds"] == ["copied", "bound"]
        same(run(y, x), scaled(y, x))


def test_N24_no_input_is_bound_where_that_is_switched_off() -> None:
    run = compiled(lambda x: (x * 2).relu(), **{"air.adaptive_slots": 0})
    x = torch.rand(4, 8)
    with torch.no_grad():
        for _ in range(8):
            run(x)
    assert explained()["keys"][0]["kinds"] == ["copied"]


def test_N24_an_mlp_calls_products_as_they_are_and_fuses_the_rest() -> None:
    model = nn.Sequential(*[part for _ in range(3) for part in (nn.Linear(16, 16), nn.GELU())]).eval()
    run = compiled(lambda x: model(x))
    with torch.no_grad():
        for _ in range(3):
            x = torch.rand(4, 16)
            same(run(x), model(x))
    assert kernels(explained())


def test_N24_each_size_gets_code_of_its_own() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.softmax(x * 2 + 1, -1).sum(0)

    run = torch.compile(
        f, backend="air", dynamic=True, options={"mode": "reduce-overhead", "air.kernels": "inductor"}
    )
    with torch.no_grad():
        for size in (5, 7, 5, 9, 7):
            x = torch.rand(size, 6)
            same(run(x), f(x))
    told = explained()
    assert len(told["keys"]) == 3
    assert len(told["fused"]["regions"][0]["made"]) == 3


def test_N24_sizes_that_are_asked_of_a_result_stay_numbers() -> None:
    def f(a: Tensor) -> tuple[Tensor, Tensor]:
        v1 = a + -1
        v3 = v1.diagonal()
        return v3.reshape(-1), v3

    run = torch.compile(
        f, backend="air", dynamic=True, options={"mode": "reduce-overhead", "air.kernels": "inductor"}
    )
    with torch.no_grad():
        x = torch.arange(12.0).reshape(4, 3)
        same(run(x), f(x))


def test_N24_what_counts_from_the_start_of_memory_stays_an_operator() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.as_strided_copy(x, (2, 3), (1, 2), 9) * 2 + 1

    run, x = compiled(f), torch.arange(24.0).reshape(4, 6)[1:]
    with torch.no_grad():
        for _ in range(3):
            same(run(x), f(x))


def test_N24_what_a_region_makes_from_no_tensor_is_part_of_its_kernel() -> None:
    def f(mask: Tensor, x: Tensor) -> Tensor:
        kept, gone = torch.full([], 0.0, device=x.device), torch.full([], -65536.0, device=x.device)
        return torch.softmax(x + torch.where(mask, kept, gone), -1)

    run = compiled(f)
    with torch.no_grad():
        for _ in range(3):
            mask, x = torch.rand(4, 8) > 0.5, torch.rand(4, 8)
            same(run(mask, x), f(mask, x))
    assert kernels(explained())


def test_N24_a_decode_step_with_a_cache_is_that_of_eager() -> None:
    pytest.importorskip("transformers")
    from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    caches = [StaticCache(config=config, max_cache_len=16) for _ in range(2)]
    run = torch.compile(model, backend="air", options={"mode": "reduce-overhead", "air.kernels": "inductor"})
    with torch.no_grad():
        for at in range(5):
            token, place = torch.randint(64, (1, 1)), torch.tensor([at])
            got, want = (
                call(input_ids=token, past_key_values=cache, cache_position=place, use_cache=True).logits
                for call, cache in zip((run, model), caches, strict=True)
            )
            torch.testing.assert_close(got, want)
    assert any(kernels(run.explain()) for _, run in _records.alive() if hasattr(run, "fused"))


def test_N24_declared_buckets_are_padded_and_served() -> None:
    def f(x: Tensor) -> Tensor:
        return (x * 2 + 1).exp().softmax(-1)

    run = compiled(f)
    with torch.no_grad():
        for rows in (3, 4, 6, 8, 3):
            x = torch.rand(rows, 4)
            set_dim_buckets(x, {0: [4, 8]})
            same(run(x), f(x))
    told = explained()
    assert len(told["keys"]) == 2
    assert kernels(told)


def test_N24_views_of_a_result_share_its_memory_as_in_eager() -> None:
    def f(x: Tensor) -> tuple[Tensor, ...]:
        y = (x * 2).exp()
        halves = y.t().split(2)
        return y, halves[1], y[1:].t(), (y + 1).sum()

    run = compiled(f)
    with torch.no_grad():
        for _ in range(3):
            x = torch.rand(4, 4)
            got, want = run(x), f(x)
            same(got, want)
            got[0].zero_()
            assert not got[1].any()
            assert not got[2].any()


def cached(keys: Tensor, values: Tensor, at: Tensor, x: Tensor) -> Tensor:
    keys.index_copy_(0, at, (x * 3).relu())
    values.index_copy_(0, at, (x + 1).exp())
    return torch.softmax(keys @ values.t(), -1) @ values + 1


def read_before(cache: Tensor, at: Tensor, x: Tensor) -> Tensor:
    before = (cache * 2 + 1).sum(0)
    cache.index_copy_(0, at, (x * 3).relu())
    return (cache * 2 + 1).sum(0) - before


def through_a_view(cache: Tensor, x: Tensor) -> tuple[Tensor, ...]:
    cache[2:4].copy_(x * 2 + 1)
    return (cache * 2 + 1).sum(0), cache[1:3]


def two_views(cache: Tensor, x: Tensor) -> tuple[Tensor, ...]:
    one, other = cache[0], cache[1]
    one.add_(x * 2 + 1)
    other.mul_(one + 1)
    return (one + other).relu(), cache


def twice(cache: Tensor, at: Tensor, x: Tensor) -> Tensor:
    cache[at] = x * 2 + 1
    cache.index_put_((at,), (x + 3).relu(), accumulate=True)
    return cache.relu() + 1


def a_step_of_an_optimizer(weight: Tensor, mean: Tensor, gradient: Tensor) -> tuple[Tensor, ...]:
    mean.mul_(0.9).add_(gradient, alpha=0.1)
    weight.mul_(0.99)
    weight.addcdiv_(mean, (gradient * gradient).sqrt() + 1e-3, value=-0.1)
    return weight.view(-1), (mean + 1).sum()


Inputs = Callable[[], tuple[Tensor, ...]]
WRITES: dict[Callable[..., Any], tuple[Inputs, set[str]]] = {
    cached: (
        lambda: (torch.rand(8, 4), torch.rand(8, 4), torch.tensor([3]), torch.rand(1, 4)),
        {"index_copy_"},
    ),
    read_before: (lambda: (torch.rand(8, 4), torch.tensor([3]), torch.rand(1, 4)), {"index_copy_"}),
    through_a_view: (lambda: (torch.rand(6, 4), torch.rand(2, 4)), {"copy_"}),
    two_views: (lambda: (torch.rand(3, 4), torch.rand(4)), {"add_"}),
    twice: (lambda: (torch.rand(6, 4), torch.tensor([1, 3]), torch.rand(2, 4)), {"index_put_"}),
    a_step_of_an_optimizer: (
        lambda: (torch.rand(4, 4), torch.rand(4, 4), torch.rand(4, 4)),
        {"add_", "mul_"},
    ),
}


@pytest.mark.parametrize("function", WRITES, ids=lambda function: function.__name__)
def test_N24_writes_into_arguments_are_part_of_the_kernels(function: Callable[..., Any]) -> None:
    made, written = WRITES[function]
    run = compiled(function)
    with torch.no_grad():
        for seed in range(5):
            torch.manual_seed(seed)
            mine = made()
            theirs = tuple(each.clone() for each in mine)
            same(run(*mine), function(*theirs))
            same(mine, theirs)
    regions = explained()["fused"]["regions"]
    inside = {name.split(".")[1] for region in regions for name in region["operators"]}
    assert written <= inside
    assert all(not made["stayed ATen"] for region in regions for made in region["made"])


def a_filled_part(x: Tensor) -> Tensor:
    part = x.chunk(2, 0)[-1]
    part.fill_(-1.5)
    return part


def a_copy_beside_a_written_view(x: Tensor) -> Tensor:
    x[:1].clamp_(-1, 2)
    return x[1:]


def a_scatter(x: Tensor) -> Tensor:
    return torch.select_scatter(x, x[1] + 1, 0, 0)


def a_norm(x: Tensor) -> Tensor:
    y = x.reshape(1, -1).expand(2, -1).t()
    return torch.nn.functional.batch_norm(y, y.new_zeros(2), y.new_ones(2), training=True) + 1


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "function",
    [a_filled_part, a_copy_beside_a_written_view, a_scatter, a_norm],
    ids=lambda each: each.__name__,
)
def test_N24_results_lie_in_memory_as_in_eager_whatever_is_written(
    function: Callable[..., Any], dynamic: bool
) -> None:
    """The argument is a part of larger memory; torch makes views of it by their offset."""
    torch._dynamo.reset()
    options: dict[str, Any] = {"mode": "reduce-overhead", "air.kernels": "inductor"}
    run = torch.compile(function, backend="air", options=options, dynamic=dynamic)
    with torch.no_grad():
        for _ in range(3):
            mine, theirs = torch.arange(8.0)[3:], torch.arange(8.0)[3:]
            found, expected = run(mine), function(theirs)
            same(found, expected)
            same(mine, theirs)
            assert found.storage_offset() == expected.storage_offset()


def test_N24_two_streams_keep_their_order() -> None:
    def f(x: Tensor) -> Tensor:
        a = (x * 2).exp() + 1
        with scope.npu_stream_switch("1"):
            b = (a + 1).relu() * 3
        return (a * 2).abs() + b

    run = compiled(f, **{"air.sync": "auto"})
    with torch.no_grad():
        for _ in range(3):
            x = torch.rand(4, 4)
            same(run(x), f(x))
    assert len(explained()["fused"]["regions"]) > 1


def test_N24_an_operator_that_cannot_be_captured_cuts_the_graph() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.relu((x * 2 + 1).erfinv() * 3 + 1).abs()

    air_aclgraph.register_uncapturable("aten::erfinv", "for this test")
    try:
        run = compiled(f)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", GraphSplit)
            for _ in range(3):
                x = torch.rand(4, 4) / 4 - 0.5
                same(run(x), f(x))
        pieces = [run.explain() for _, run in _records.alive() if hasattr(run, "pieces")][-1]["pieces"]
        assert all(kernels(piece) for piece in pieces.values())
    finally:
        air_aclgraph.unregister_uncapturable("aten::erfinv")


def test_N24_training_steps_give_the_gradients_of_eager() -> None:
    torch.manual_seed(0)
    model, other = (nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)) for _ in range(2))
    other.load_state_dict(model.state_dict())
    run = compiled(lambda x: model(x).square().mean())
    for _ in range(4):
        x = torch.rand(4, 8)
        for value, parameters in ((run(x), model), (other(x).square().mean(), other)):
            parameters.zero_grad()
            value.backward()
        for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_N24_half_precision_is_rounded_where_eager_rounds(dtype: torch.dtype, ground: str) -> None:
    if ground == "cpu" and torch.__version__ < "2.13":
        pytest.skip("C++ kernels of older torch round once for each kernel")

    def f(x: Tensor, y: Tensor) -> Tensor:
        return ((x * y + 1) * 0.3 - y) * 7

    run = compiled(f)
    with torch.no_grad():
        x, y = torch.randn(64, 64).to(dtype), torch.randn(64, 64).to(dtype)
        assert torch.equal(run(x, y), f(x, y))
    assert kernels(explained())


def test_N24_random_numbers_are_those_of_eager() -> None:
    def f(x: Tensor) -> Tensor:
        return (x * 2 + 1) * torch.rand_like(x) + 1

    run, x = compiled(f), torch.ones(4)
    with torch.no_grad():
        for seed in range(3):
            torch.manual_seed(seed)
            got = run(x)
            torch.manual_seed(seed)
            same(got, f(x))


def test_N24_passes_are_proven_as_ever() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.cat([x * 2 + 1, x.abs() - 1]).relu().sum(0)

    run = compiled(f, **{"air.verify": True})
    with torch.no_grad():
        for _ in range(3):
            x = torch.rand(4, 4)
            same(run(x), f(x))
    assert kernels(explained())


def test_N24_a_region_that_inductor_cannot_compile_runs_its_operators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torch._inductor import compile_fx

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a fault of the generator")

    monkeypatch.setattr(compile_fx, "compile_fx_inner", broken)
    run = compiled(lambda x: (x * 2 + 1).exp())
    with torch.no_grad():
        for _ in range(3):
            x = torch.rand(4)
            same(run(x), (x * 2 + 1).exp())
    made = explained()["fused"]["regions"][0]["made"]
    assert "a fault of the generator" in made[0]["stayed ATen"]


def test_N24_a_region_that_comes_first_inside_a_capture_runs_its_operators() -> None:
    inner = torch.fx.symbolic_trace(lambda x: ((x * 2 + 1),))
    late = [True]
    region = Region("region_0", inner, Ground(is_late=lambda: late[0]))
    x = torch.rand(4)
    assert torch.equal(region(x)[0], x * 2 + 1)
    assert "inside a capture" in region.explain()["made"][0]["stayed ATen"]
    late[0] = False
    same(region(torch.ones(5))[0], torch.ones(5) * 2 + 1)
    assert region.explain()["made"][1]["kernels"]


def test_N24_without_a_compiler_the_option_is_refused() -> None:
    from torch._inductor import config, cpp_builder

    with config.patch({"cpp.cxx": ("no-such-compiler",)}):
        cpp_builder.get_cpp_compiler.cache_clear() if hasattr(
            cpp_builder.get_cpp_compiler, "cache_clear"
        ) else None
        with pytest.raises(Unsupported, match="no C\\+\\+ compiler"):
            refuse_absent(torch.device("cpu"))


def test_N24_a_device_without_a_generator_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="no kernel generator for meta"):
        refuse_absent(torch.device("meta"))


@pytest.mark.npu("the refusal is about NPUs")
def test_N24_an_npu_without_a_generator_of_inductor_is_refused_by_name() -> None:
    from torch._inductor.codegen.common import get_scheduling_for_device

    if get_scheduling_for_device("npu") is not None:
        pytest.skip("a generator for npu is registered with Inductor here")
    run = compiled(lambda x: (x * 2 + 1).exp())
    with torch.no_grad(), pytest.raises(Exception, match="no kernel generator for npu"):
        run(torch.ones(4, device="npu"))


def test_N24_mode_max_autotune_refuses_the_option() -> None:
    run = torch.compile(
        lambda x: x * 2, backend="air", options={"mode": "max-autotune", "air.kernels": "inductor"}
    )
    with pytest.raises(Exception, match="inductor-kernels-need-reduce-overhead"):
        run(torch.rand(3))
