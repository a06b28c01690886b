"""What torch's own tables hold besides operators and modules gives what eager gives.

Operators of a higher order, operators and autograd functions as users write them, and steps of optimizers.
"""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from against_eager import gradients, judged

MODES = ("reduce-overhead", "max-autotune")
CALLS = 2  # a capture and a replay
STEPS = 4
#: Wants a closure; wants sparse gradients.
NOT_STEPPED = frozenset(("LBFGS", "SparseAdam"))

Program = Callable[[Callable[..., Any]], Any]


def _fresh(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    fresh = value.detach().clone(memory_format=torch.preserve_format)
    return fresh.requires_grad_(value.requires_grad)


def _called(op: Any, sample: Any) -> Program:
    """Calls of an operator, as the way that is given to it compiles them."""

    def program(way: Callable[..., Any]) -> Any:
        run, seen = way(lambda *args, **kwargs: op(*args, **kwargs)), []
        torch.manual_seed(0)
        for _ in range(CALLS):
            args = tree_map(_fresh, (sample.input, *sample.args))
            kwargs = tree_map(_fresh, sample.kwargs)
            results = run(*args, **kwargs)
            seen.append((results, gradients(results, (args, kwargs)), args))
        return seen

    return program


def _of_table(name: str) -> Iterator[tuple[str, Program]]:
    table = getattr(importlib.import_module(f"torch.testing._internal.{name}"), name)
    for op in table:
        for dtype in (torch.float32, torch.float16, torch.int64):
            if dtype not in op.dtypes:
                continue
            for trained in (False, True) if op.supports_autograd and dtype.is_floating_point else (False,):
                try:
                    samples = list(op.sample_inputs("cpu", dtype, requires_grad=trained))
                except Exception:  # some make none of this type
                    continue
                for at, sample in enumerate(samples[:6]):
                    yield f"{op.name} {dtype} {trained} {at}", _called(op.op, sample)


def _stepped(kind: type[torch.optim.Optimizer], settings: dict[str, Any]) -> Program:
    """Steps of an optimizer."""

    def program(way: Callable[..., Any]) -> Any:
        torch.manual_seed(0)
        shapes = [(4, 5), (5, 6)] if kind.__name__ == "Muon" else [(4, 5), (5,), (1,), (2, 3, 4)]
        parameters = [nn.Parameter(torch.randn(shape)) for shape in shapes]
        made: Any = kind
        optimizer = made(parameters, **copy.deepcopy(settings))
        step = way(optimizer.step)
        for _ in range(STEPS):
            for parameter in parameters:
                parameter.grad = torch.randn(parameter.shape)
            step()
        states = [value for state in optimizer.state.values() for value in state.values()]
        return [parameter.detach().clone() for parameter in parameters], states

    return program


def _of_optimizers(name: str) -> Iterator[tuple[str, Program]]:
    table: Any = importlib.import_module("torch.testing._internal.common_optimizers")
    for info in table.optim_db:
        if info.optim_cls.__name__ in NOT_STEPPED:
            continue
        for way in ("", *(each for each in ("foreach", "fused") if each in info.supported_impls)):
            for given in info.optim_inputs_func(device="cpu"):
                settings = given.kwargs | ({way: True} if way else {})
                yield f"{info.optim_cls.__name__} {settings}", _stepped(info.optim_cls, settings)


TABLES = {
    "hop_db": _of_table,
    "custom_op_db": _of_table,
    "autograd_function_db": _of_table,
    "optim_db": _of_optimizers,
}


def _way(backend: str, options: dict[str, Any] | None = None) -> Callable[..., Any]:
    return lambda function: torch.compile(function, backend=backend, options=options)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("table", TABLES)
def test_what_torchs_tables_hold_gives_what_eager_gives(table: str, mode: str) -> None:
    wrong, seen = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, program in TABLES[table](table):
            try:
                expected = program(lambda function: function)
            except Exception:  # eager does not take it
                continue
            seen += 1
            told = judged(program, expected, _way("air", {"mode": mode}))
            if told and not judged(program, expected, _way("aot_eager")):
                wrong.append(f"{name}: {told}")
    assert seen >= 20
    assert not wrong, "\n".join(wrong)
