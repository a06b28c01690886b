"""A pinned function: the compiled function's results without Dynamo, and a word where it cannot be had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.utils._pytree import tree_map

from air_aclgraph.errors import InputRefused
from air_backend import CompilerConfig, get_npu_backend, pin
from air_backend.errors import CannotPin, PinnedArgument, PinnedGradient


def compiled(function: Any, **options: Any) -> Any:
    config = CompilerConfig()
    config.mode = "reduce-overhead"
    for path, value in options.items():
        config.set(path.replace("__", "."), value)
    return torch.compile(function, backend=get_npu_backend(compiler_config=config), dynamic=False)


@pytest.fixture(autouse=True)
def clean() -> Any:
    with torch.no_grad():
        yield
    torch._dynamo.reset()


def test_a_pinned_module_computes_what_the_module_computes() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    step = pin(compiled(model), torch.randn(2, 4))
    for _ in range(3):
        x = torch.randn(2, 4)
        torch.testing.assert_close(step(x), model(x), rtol=0, atol=0)


def test_a_pinned_call_enters_neither_dynamo_nor_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(4, 4)
    step = pin(compiled(model), torch.randn(2, 4))
    x = torch.randn(2, 4)
    expected = model(x)
    monkeypatch.setattr(nn.Linear, "forward", None)
    with torch.compiler.set_stance("fail_on_recompile"):
        torch.testing.assert_close(step(x), expected, rtol=0, atol=0)


def test_nested_results_and_keyword_arguments_come_back_as_they_were() -> None:
    def model(x: Tensor, *, pair: dict[str, Tensor], scale: float) -> dict[str, Any]:
        return {"sum": x + pair["y"], "rest": [x * scale, "name", 3]}

    given: dict[str, Any] = {"pair": {"y": torch.randn(3)}, "scale": 2.0}
    step = pin(compiled(model), torch.randn(3), **given)
    x, given["pair"] = torch.randn(3), {"y": torch.randn(3)}
    got, expected = step(x, **given), model(x, **given)
    torch.testing.assert_close(got["sum"], expected["sum"], rtol=0, atol=0)
    torch.testing.assert_close(got["rest"][0], expected["rest"][0], rtol=0, atol=0)
    assert got["rest"][1:] == ["name", 3]


@pytest.mark.parametrize(
    "nested",
    [
        lambda a, b: (a, (b,)),
        lambda a, b: ((a,), (b,)),
        lambda a, b: ((a, b),),
        lambda a, b: ([a], b),
        lambda a, b: [a, b],
        lambda a, b: (b, a),
    ],
)
def test_results_are_nested_as_the_function_nests_them(nested: Callable[[Tensor, Tensor], Any]) -> None:
    def model(x: Tensor) -> Any:
        return nested(x * 2, x + 1)

    x = torch.randn(3)
    got, expected = (tree_map(Tensor.tolist, function(x)) for function in (pin(compiled(model), x), model))
    assert got == expected


def test_an_argument_that_is_a_result_is_that_of_the_call_not_of_the_example() -> None:
    def model(x: Tensor, named: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        return x, named["y"] * x, named["y"]

    step = pin(compiled(model), torch.zeros(3), {"y": torch.zeros(3)})
    x, y = torch.randn(3), torch.randn(3)
    first, product, second = step(x, {"y": y})
    assert first is x
    assert second is y
    assert torch.equal(product, x * y)


def test_a_written_argument_that_is_the_result_is_that_of_the_call() -> None:
    def model(x: Tensor) -> Tensor:
        return x.add_(1)

    function = compiled(model)
    for _ in range(2):
        function(torch.zeros(3))  # its memory is another one in each call: it is copied
    step = pin(function, torch.zeros(3))
    x = torch.full((3,), 4.0)
    assert step(x) is x
    assert torch.equal(x, torch.full((3,), 5.0))


def test_pinning_runs_a_captured_function_once_and_its_writes_go_to_the_example() -> None:
    def model(x: Tensor, state: Tensor) -> Tensor:
        state.add_(x)
        return state * 2

    function, state = compiled(model), torch.zeros(3)
    step = pin(function, torch.ones(3), state)
    assert state.tolist() == [1, 1, 1]
    step(torch.ones(3), state)
    assert state.tolist() == [2, 2, 2]
    with pytest.raises(PinnedArgument, match="argument 1 is another tensor"):
        step(torch.ones(3), torch.zeros(3))


@pytest.mark.parametrize(
    ("args", "match"),
    [
        ((), "0 arguments"),
        ((torch.ones(2), 3), "argument 1 is 3"),
        ((torch.ones(2), 2.0), "argument 1 is 2.0"),
    ],
)
def test_arguments_that_do_not_fit_the_example_are_refused(args: tuple[Any, ...], match: str) -> None:
    step = pin(compiled(lambda x, n: x * n), torch.ones(2), 2)
    with pytest.raises(PinnedArgument, match=match):
        step(*args)


def two_graphs(x: Tensor) -> Tensor:
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


@pytest.mark.parametrize(
    ("function", "options", "match"),
    [
        (two_graphs, {}, "several graphs ran: graph_"),
        (lambda x: x + 1, {"mode": "max-autotune"}, "no graph that mode reduce-overhead captured"),
        (lambda x: x + 1, {"debug__run_eagerly": True}, "no graph that mode reduce-overhead captured"),
    ],
)
def test_what_is_not_one_captured_graph_is_refused_with_the_reason(
    function: Any, options: dict[str, Any], match: str
) -> None:
    with pytest.raises(CannotPin, match=match):
        pin(compiled(function, **options), torch.ones(2))


def test_a_function_that_was_never_compiled_is_refused_as_one() -> None:
    with pytest.raises(CannotPin, match=r"Linear is no function that torch\.compile made"):
        pin(torch.nn.Linear(2, 2), torch.ones(2))
    in_place = torch.nn.Linear(2, 2)
    in_place.compile(backend="eager")
    with pytest.raises(CannotPin, match="no graph that mode reduce-overhead captured"):
        pin(in_place, torch.ones(2))


def test_a_graph_that_is_trained_is_refused_with_that_reason() -> None:
    with pytest.raises(CannotPin, match="the result of the example has a gradient"), torch.enable_grad():
        pin(compiled(lambda x: x + 1), torch.ones(2, requires_grad=True))


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (lambda: FakeTensorMode().from_tensor(torch.ones(2)), "a fake tensor"),
        (lambda: torch.ones(2).to_sparse(), "a tensor with layout torch.sparse_coo"),
    ],
)
def test_an_argument_that_has_no_values_to_copy_is_refused_by_name(
    given: Callable[[], Tensor], what: str
) -> None:
    step = pin(compiled(lambda x, y: x + y), torch.ones(2), torch.ones(2))
    with pytest.raises(InputRefused, match=f"input 'arg1_1' is {what}"):
        step(torch.ones(2), given())
    assert step(torch.ones(2), torch.ones(2)).tolist() == [2.0, 2.0]


def test_an_argument_on_another_device_is_refused() -> None:
    step = pin(compiled(lambda x, y: x + y), torch.ones(2), torch.ones(2))
    with pytest.raises(PinnedArgument, match="argument 1 lies on meta, in the example on cpu"):
        step(torch.ones(2), torch.ones(2, device="meta"))
    assert step(torch.ones(2), torch.ones(2)).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("function", [lambda x: x * 2, Tensor.clone, lambda x: torch.softmax(x, 0)])
def test_an_argument_that_is_to_have_a_gradient_is_refused_and_breaks_nothing(
    function: Callable[[Tensor], Tensor], device: str
) -> None:
    step, weight = pin(compiled(function), torch.ones(3, device=device)), torch.ones(3, device=device)
    weight.requires_grad_()
    with torch.enable_grad():
        for given in (weight, weight * 2):
            with pytest.raises(PinnedGradient, match="argument 0 requires them"):
                step(given)
        x = torch.tensor([3.0, 4.0, 5.0], device=device)
        torch.testing.assert_close(step(x), function(x))
    result = step(weight)
    torch.testing.assert_close(result, function(weight))
    assert not result.requires_grad


def test_arguments_that_were_one_tensor_in_the_example_are_one_in_each_call() -> None:
    a, b = torch.randn(4), torch.randn(4)
    step = pin(compiled(lambda x, y: x * 2 + y), a, a)
    for one in (a, b):
        torch.testing.assert_close(step(one, one), one * 3, rtol=0, atol=0)
    for other in ((a, b), (b, a)):
        with pytest.raises(PinnedArgument, match="two tensors, which were one"):
            step(*other)


def test_the_compiled_function_goes_on_as_before() -> None:
    function = compiled(lambda x: x.sin())
    step = pin(function, torch.ones(3))
    x = torch.randn(3)
    torch.testing.assert_close(function(x), x.sin())
    torch.testing.assert_close(step(x * 2), (x * 2).sin())
    torch.testing.assert_close(function(x), x.sin())
