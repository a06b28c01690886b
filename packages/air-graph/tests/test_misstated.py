"""Strides of example values are those that the kernels of a CPU give, where torch's fake kernels state others."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves, tree_map

from air_graph import hint_of, mend_layouts
from air_graph._misstated import MISSTATED
from air_graph.testing.stated import StatedOtherwise, run_laid_out_anyhow

SHARDS = 4  # of torch's tables


def columns(x: Tensor) -> Tensor:
    return x[:, 0, 0].t().contiguous().t()


def normed_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    statistics = torch.ones(3, 1)
    result: Tensor = torch.ops.aten.native_layer_norm_backward(
        gradient.t().contiguous().t(), x, [2], statistics, statistics, None, None, [True, False, False]
    )[0]
    return result


PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "batch_norm": lambda x: torch.nn.functional.batch_norm(x.transpose(0, 1), None, None, training=True) * 2,
    "logsigmoid": lambda x: torch.nn.functional.logsigmoid(x.permute(3, 2, 1, 0)),
    "pow": lambda x: torch.pow(2.0, x.permute(3, 2, 1, 0)),
    "copysign": lambda x: torch.copysign(x.permute(3, 2, 1, 0), x[0, 0, 0, 0]),
    "floor": lambda x: torch.div(x.permute(3, 2, 1, 0), x[0, 0, 0, 0], rounding_mode="floor")[1:],
    "angle": lambda x: torch.complex(x, x).permute(3, 2, 1, 0).angle(),
    "index": lambda x: x[0, 0].unfold(0, 3, 1)[:, [1, 0]],
    "logaddexp": lambda x: torch.logaddexp(columns(x)[:, None], columns(x)),
    "scatter": lambda x: torch.as_strided_scatter(x[:1].expand_as(x), x[0, 0, 0] * 2, (2,), (1,)),
    "roll": lambda x: x.contiguous(memory_format=torch.channels_last).roll(3, 2),
    "reshaped": lambda x: torch.pow(2.0, x.permute(3, 2, 1, 0)).permute(3, 2, 1, 0).reshape(6, -1)[:, 1],
    "layer_norm": lambda x: normed_gradient(x[0, 0], x[0, 0] + 1),
    "shuffle": lambda x: torch.channel_shuffle(x.contiguous(memory_format=torch.channels_last), 2) + 1,
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("tracing", ["fake", "symbolic"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_what_follows_from_them_lie_as_in_eager(name: str, tracing: Any) -> None:
    function = PROGRAMS[name]
    x = torch.rand(6, 4, 3, 2) + 0.5
    gm = make_fx(function, tracing_mode=tracing)(x)
    mend_layouts(gm)
    (result,) = gm.graph.output_node().all_input_nodes
    stated = [hint_of(s) for s in result.meta["val"].stride()]
    assert tuple(stated) == function(x).stride()
    torch.testing.assert_close(gm(x), function(x))


def test_where_operands_lie_densely_nothing_is_asked() -> None:
    gm = make_fx(lambda x: torch.pow(2.0, x) + torch.xlogy(x, x), tracing_mode="fake")(torch.rand(3, 4))
    assert not mend_layouts(gm)


def test_a_kernel_that_cannot_be_asked_is_believed() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.div(x.t().to(torch.int32), x.t().to(torch.int32), rounding_mode="floor")  # by zero

    gm = make_fx(function, tracing_mode="fake")(torch.ones(3, 4))
    assert not mend_layouts(gm)


#: Without a fake kernel torch asks the kernel itself, and states the strides that it gives.
ASKED_BY_TORCH: tuple[Any, ...] = (torch._standard_gamma,) if torch.__version__ < "2.13" else ()


@pytest.mark.parametrize("draw", [torch.poisson, torch._standard_gamma, partial(torch.normal, 1.0)])
def test_what_a_kernel_draws_lies_as_in_eager_and_the_question_moves_no_generator(
    draw: Callable[[Tensor], Tensor],
) -> None:
    x = torch.ones(3, 4).t()
    gm = make_fx(draw, tracing_mode="fake")(x)
    before = torch.get_rng_state()
    assert mend_layouts(gm) == (draw not in ASKED_BY_TORCH)
    assert torch.equal(torch.get_rng_state(), before)
    (result,) = gm.graph.output_node().all_input_nodes
    assert result.meta["val"].stride() == draw(x).stride() == (3, 1)


def _turned(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The same values with these axes innermost last."""
    back = [axes.index(axis) for axis in range(len(axes))]
    laid = x.detach().permute(axes).contiguous().permute(back)
    return laid.requires_grad_(x.requires_grad)


def _with_gaps(x: Tensor) -> Tensor:
    """The same values with axes reversed, where each row has room for one element more."""
    turned = x.detach().permute(*reversed(range(x.dim()))).contiguous()
    laid = torch.cat([turned, turned[..., :1]], -1)[..., : turned.shape[-1]]
    return laid.permute(*reversed(range(x.dim()))).requires_grad_(x.requires_grad)


def _laid_out(at: int, x: Any) -> Any:
    """A tensor in one of four layouts: axes reversed, the first two swapped, channels last, reversed with gaps."""
    if not isinstance(x, Tensor) or x.layout is not torch.strided or x.dim() < 2:
        return x
    if at == 3:
        return _with_gaps(x)
    axes = range(x.dim())
    orders = (tuple(reversed(axes)), (1, 0, *axes[2:]), (0, 2, 3, 1) if x.dim() == 4 else tuple(axes))
    return _turned(x, orders[at])


@pytest.mark.slow
def test_every_operator_whose_strides_torch_misstates_is_known() -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    seen = StatedOtherwise()
    for op in op_db:
        if torch.float32 not in op.dtypes or op.name.startswith("jiterator"):
            continue
        for sample in _samples(op):
            for at in range(4):
                call = tree_map(partial(_laid_out, at), (sample.input, sample.args, sample.kwargs))
                with warnings.catch_warnings(), seen:
                    warnings.simplefilter("ignore")
                    _run(op, call)
    misstated = {name for name, what in seen.found.items() if "strides" in what}
    assert len(misstated & MISSTATED) > 10
    assert {name for name in misstated if not name.startswith("aten::_sparse")} <= MISSTATED


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_operator_is_known_whose_strides_torch_misstates_where_each_tensor_lies_in_a_way_of_its_own(
    shard: int,
) -> None:
    """Gradients too: a kernel lays its result out like one of its operands, and the fake kernel like another."""
    chance, seen = random.Random(shard), StatedOtherwise()
    with warnings.catch_warnings(), seen:
        warnings.simplefilter("ignore")
        for program in _programs(shard):
            for _ in range(4):
                run_laid_out_anyhow(chance, program)
    misstated = {name for name, what in seen.found.items() if "strides" in what}
    assert len(misstated & MISSTATED) > 5
    assert {name for name in misstated if not name.startswith("aten::_sparse")} <= MISSTATED


def _programs(shard: int) -> Iterator[Callable[[Any], tuple[Any, Any]]]:
    """Each lays out what it is given, runs, and tells results and operands: of torch's operators and modules."""
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db

    for op in op_db[shard::SHARDS]:
        if torch.float32 in op.dtypes and not op.name.startswith("jiterator"):
            for sample in _samples(op):
                yield partial(_operator, op, sample)
    for info in module_db[shard::SHARDS]:
        given = {"device": "cpu", "dtype": torch.float32, "requires_grad": True, "training": True}
        for made in info.module_inputs_func(info, **given)[:4]:
            if made.forward_input is not None:
                yield partial(_module, info, made)


def _operator(op: Any, sample: Any, lay: Callable[[Any], Any]) -> tuple[Any, Any]:
    first, args, kwargs = operands = tree_map(lay, (sample.input, sample.args, sample.kwargs))
    return op.op(first, *args, **kwargs), operands


def _module(info: Any, made: Any, lay: Callable[[Any], Any]) -> tuple[Any, Any]:
    module = info.module_cls(*made.constructor_input.args, **made.constructor_input.kwargs)
    args, kwargs = operands = tree_map(lay, (made.forward_input.args, made.forward_input.kwargs))
    return module(*args, **kwargs), (operands, list(module.parameters()))


def _samples(op: Any) -> list[Any]:
    """Four of an operator's, those first whose tensors have axes to turn."""
    samples = list(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd))
    return sorted(samples, key=lambda one: max(map(_axes, tree_leaves(one.input)), default=0) < 2)[:4]


def _axes(x: Any) -> int:
    return x.dim() if isinstance(x, Tensor) else 0


def _run(op: Any, call: Any) -> None:
    """The operator and its gradients; a sample that does not take this layout says nothing."""
    first, args, kwargs = call
    try:
        results = [
            x for x in tree_leaves(op(first, *args, **kwargs)) if isinstance(x, Tensor) and x.requires_grad
        ]
        inputs = [x for x in tree_leaves(call) if isinstance(x, Tensor) and x.requires_grad]
        if results and inputs:
            torch.autograd.grad(results, inputs, [torch.ones_like(x) for x in results], allow_unused=True)
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return


def powers(base: float, x: Tensor) -> Tensor:
    """Laid out densely by the kernel, and like `x` by the fake one."""
    return torch.pow(base, x.permute(3, 2, 1, 0))


def rows(x: Tensor) -> Tensor:
    return x.permute(3, 2, 1, 0).reshape(6, -1)[:, 1] * 2


def chosen(first: Callable[[Tensor], Tensor], second: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    result: Tensor = torch.cond(x.sum() > 0, first, second, (x,))
    return result


BRANCHES: dict[str, Callable[[Tensor], Tensor]] = {
    "inside": lambda x: chosen(lambda x: rows(powers(2.0, x)), lambda x: rows(powers(3.0, x)), x),
    "behind": lambda x: rows(chosen(lambda x: powers(2.0, x), lambda x: powers(3.0, x), x)),
    "in front": lambda x: chosen(rows, lambda x: rows(x) + 1, powers(2.0, x)),
    "of a branch": lambda x: chosen(lambda x: powers(2.0, x), lambda x: powers(3.0, x), x),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_values_of_branches_lie_as_in_eager(name: str) -> None:
    function = BRANCHES[name]
    x = torch.rand(6, 4, 3, 2) + 0.5
    gm = make_fx(function, tracing_mode="fake")(x)
    assert mend_layouts(gm)
    expected = function(x)
    torch.testing.assert_close(gm(x), expected)
    (result,) = gm.graph.output_node().all_input_nodes
    assert result.meta["val"].stride() == expected.stride()
