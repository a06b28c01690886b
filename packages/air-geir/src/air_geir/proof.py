"""Proves a converter: what the reference engine computes from its graph is what eager torch computes.

The kernel that runs an operator type is written from the operator's documentation and knows nothing of torch's
operators, so agreement says something about both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from air_geir._compile import Executable, compile_graph
from air_geir.converters import ConverterError, Sample, find_converter, resolve
from air_geir.errors import ConverterRefuted
from air_geir.lowering import writes_inside
from air_graph import without_writes


def trace(function: Callable[..., Any], args: Sequence[Any], *, dynamic: bool = False) -> fx.GraphModule:
    """The function as a functional graph of ATen operators over its tensors; sizes are symbols when dynamic."""
    mode: Literal["symbolic", "fake"] = "symbolic" if dynamic else "fake"
    traced = make_fx(function, tracing_mode=mode, _allow_non_fake_inputs=True)(*args)
    if not writes_inside(traced):
        return traced
    return make_fx(without_writes(traced), tracing_mode=mode, _allow_non_fake_inputs=True)(*args)


def compile_call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], *, dynamic: bool = False
) -> tuple[Executable, list[torch.Tensor]]:
    """One call compiled for the reference engine, and the tensors to call it with."""
    leaves, spec = pytree.tree_flatten((tuple(args), kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def over_tensors(*given: torch.Tensor) -> Any:
        values = iter(given)
        filled = [next(values) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        inner_args, inner_kwargs = pytree.tree_unflatten(filled, spec)
        return [r for r in pytree.tree_leaves(function(*inner_args, **inner_kwargs))]

    gm = trace(over_tensors, tensors, dynamic=dynamic)
    return compile_graph(gm, tensors, engine="reference", name="call"), tensors


def check_call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], *, dynamic: bool = False
) -> Executable:
    """Compares one call with eager torch: values, types and shapes; raises AssertionError where they differ."""
    run, tensors = compile_call(function, args, kwargs, dynamic=dynamic)
    expected = pytree.tree_leaves(function(*args, **kwargs))
    found = run(*tensors)
    if len(found) != len(expected):
        raise AssertionError(f"{len(found)} results, eager gives {len(expected)}")
    for got, want in zip(found, expected, strict=True):
        if isinstance(want, torch.Tensor):
            torch.testing.assert_close(got, want, equal_nan=True, check_stride=False)
        elif got != want:
            raise AssertionError(f"got {got!r}, eager gives {want!r}")
    return run


def check_converter(target: Any, samples: Iterable[Sample] | None = None, *, dynamic: bool = False) -> int:
    """Runs the samples of a converter (or those given) against eager torch; says how many there were, one at least.

    A sample in which the two differ is a `ConverterRefuted`.

    Your own converter is proven the same way as those of this package::

        @converts(torch.ops.mylib.scale.default, samples=[Sample(f32(3, 4), 2.0)])
        def scale(ctx, self, factor): ...

        check_converter(torch.ops.mylib.scale.default)
    """
    converter = find_converter(target)
    if converter is None:
        raise ConverterError(f"{target} has no converter", advice="register it with @converts first")
    op = resolve(converter.target)
    if op is None:
        raise ConverterError(f"{converter.target} is not loaded", advice="import the library that defines it")
    calls = list(converter.samples if samples is None else samples)
    if not calls:
        raise ConverterError(
            f"the converter of {converter.target} has no samples: nothing is proven",
            advice="give @converts(..., samples=[Sample(...)]), or check_converter(operator, [Sample(...)])",
        )
    for number, sample in enumerate(calls, 1):
        args, kwargs = sample.make()
        try:
            check_call(op, args, kwargs, dynamic=dynamic)
        except AssertionError as wrong:
            raise ConverterRefuted(converter.target, number, str(sample), str(wrong)) from wrong
    return len(calls)
