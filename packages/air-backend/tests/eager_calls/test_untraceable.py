"""What eager runs and torch cannot make functional runs eagerly, and says so."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.exc import BackendCompilerFailed

from air_backend import CompilerConfig, explain, get_npu_backend
from air_backend.eager_calls import NotTraced

MODES = ("reduce-overhead", "max-autotune")
MASK = torch.tensor([[True, False, True, True]])


def masked_heads(x: Tensor) -> Tensor:
    """A write to heads that were split and permuted, which torch traces as a view that there is not."""
    heads = (x + 1).reshape(1, 4, 4, 8).permute(0, 2, 1, 3)
    heads.masked_fill_(MASK[:, None, :, None], 0.0)
    return heads * 2


def compiled(function: Callable[..., Any], mode: Any, wanted: Any = "split", **given: Any) -> Any:
    torch._dynamo.reset()
    config = CompilerConfig()
    config.mode = mode
    config.air.uncapturable = config.air.unsupported = wanted
    return torch.compile(function, backend=get_npu_backend(compiler_config=config, **given))


@pytest.mark.parametrize("mode", MODES)
def test_N23_a_graph_that_torch_cannot_trace_runs_eagerly_with_one_warning(mode: str) -> None:
    run = compiled(masked_heads, mode)
    with pytest.warns(NotTraced, match="Cannot view a tensor") as told:
        run(torch.ones(1, 4, 32))
    assert len(told) == 1
    assert "heads.masked_fill_(MASK" in str(told[0].message)
    assert "a value of its own instead of a view" in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.randn(1, 4, 32)
        assert torch.equal(run(x), masked_heads(x))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore::air_backend.eager_calls.NotTraced")
def test_N23_its_gradients_are_those_of_eager(mode: str) -> None:
    x, y = (torch.arange(128.0).reshape(1, 4, 32).requires_grad_() for _ in range(2))
    compiled(masked_heads, mode)(x).sum().backward()
    masked_heads(y).sum().backward()
    assert torch.equal(x.grad, y.grad)  # type: ignore[arg-type]


def read_before_it_was_written(x: Tensor) -> Tensor:
    y = x.exp()
    y.relu_()
    return y


@pytest.mark.parametrize("mode", MODES)
def test_N23_without_an_operator_the_warning_names_where_the_graph_begins(mode: str) -> None:
    with pytest.warns(NotTraced, match="modified by an inplace operation") as told:
        compiled(read_before_it_was_written, mode)(torch.ones(3, requires_grad=True))
    (message,) = (str(each.message) for each in told if each.category is NotTraced)  # torch warns as well
    assert "begins" in message
    assert "y = x.exp()" in message
    assert "keep the value that the gradient needs" in message


@pytest.mark.parametrize("mode", MODES)
def test_N23_the_error_is_raised_where_one_is_asked_for(mode: str) -> None:
    with pytest.raises(BackendCompilerFailed, match="Cannot view a tensor"):
        compiled(masked_heads, mode, "error")(torch.ones(1, 4, 32))


@pytest.mark.filterwarnings("ignore::air_backend.eager_calls.NotTraced")
def test_N23_explain_counts_such_calls() -> None:
    torch._dynamo.reset()
    report = explain(masked_heads, torch.ones(1, 4, 32))
    ((reason, calls),) = report.data["calls run eagerly"].items()
    assert "cannot trace it" in reason
    assert calls > 0


@pytest.mark.parametrize("mode", MODES)
def test_an_error_of_a_decomposition_of_the_users_is_raised(mode: str) -> None:
    def decomposed(x: Tensor) -> Tensor:
        return x.view(7, 7)

    given: dict[str, Any] = {"custom_decompositions": {torch.ops.aten.sin.default: decomposed}}
    with pytest.raises(BackendCompilerFailed, match=r"is invalid for input of size|as a tensor with shape"):
        compiled(lambda x: x.sin(), mode, **given)(torch.ones(3))


@pytest.mark.parametrize("mode", MODES)
def test_N23_a_graph_whose_result_belongs_to_a_level_of_torch_func_runs_eagerly(mode: str) -> None:
    def pullback(x: Tensor) -> Any:
        return torch.func.vjp(waves, x)[1]

    def waves(x: Tensor) -> Tensor:
        return x.sin() * 2

    x = torch.arange(4.0)
    with pytest.warns(NotTraced, match=r"begins .*torch.func.vjp[^$]*call what torch.func gives inside"):
        back = compiled(pullback, mode)(x)
    torch.testing.assert_close(back(torch.ones(4)), pullback(x)(torch.ones(4)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore:Error detected in MatmulBackward0")
def test_N23_the_advice_for_a_gradient_that_reads_values_is_no_other_write(mode: str) -> None:
    def mixed(x: Tensor, w: Tensor) -> Tensor:
        return x.sin() @ w

    parts = [torch.randn(length, 4) for length in (2, 3)]
    ragged = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    with pytest.warns(NotTraced, match="take what needs values of a tensor"):
        compiled(mixed, mode)(ragged, torch.randn(4, 4, requires_grad=True))


@pytest.mark.parametrize("mode", MODES)
def test_N23_a_setting_that_torch_has_for_other_devices_is_named(mode: str) -> None:
    with (
        torch._functorch.config.patch(functionalize_rng_ops=True),
        pytest.warns(NotTraced, match="leave torch._functorch.config.functionalize_rng_ops off"),
    ):
        compiled(lambda x: torch.rand_like(x) + x, mode)(torch.ones(4))


class Counted(nn.Module):
    """Reads a number."""

    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        return x * count.item()


@pytest.mark.parametrize("mode", MODES)
def test_N23_the_advice_for_a_number_names_the_option_that_captures_it(mode: str) -> None:
    x, count = torch.ones(3), torch.tensor(2)
    module = torch.export.export(Counted(), (x, count)).module()
    with pytest.warns(NotTraced, match="_local_scalar_dense") as told:
        torch.testing.assert_close(compiled(module, mode)(x, count), x * 2)
    (message,) = (str(each.message) for each in told if each.category is NotTraced)
    assert "set torch._dynamo.config.capture_scalar_outputs" in message
    assert "rewrite the line" not in message
