"""Calls a function in eager and compiled, several times, and compares all that the caller can see."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_map_only

from air_backend._backend import Backend, effective_config
from air_backend._copied import copied
from air_backend._same import assert_same, refuse_no_calls, refuse_no_tolerance
from air_config import CompilerConfig
from air_graph import storage_of

MODES: Final = ("reduce-overhead", "max-autotune")


def assert_same_as_eager(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    kwargs: Mapping[str, Any] | None = None,
    modes: Sequence[str] = MODES,
    options: Mapping[str, Any] | CompilerConfig | None = None,
    calls: int = 3,
    dynamic: bool | None = False,
    backward: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Raises an `AssertionError` where a compiled `fn` does something else than `fn`.

    Args:
        fn: a function or a module; it is copied before it is called, with its parameters and buffers.
        inputs: what it is called with; copied as well, once for eager and once for each mode. The copies lie and share
            memory as the inputs do.
        kwargs: its keyword arguments.
        modes: the modes of `torch.compile` to try.
        options: options of the backend, beside the mode.
        calls: how often it is called; every call sees what the ones before wrote into inputs and buffers.
        dynamic: as for `torch.compile`.
        backward: whether the sum of all floating results is differentiated, and gradients are compared.
        rtol: relative tolerance; as `torch.testing.assert_close` has it for the dtype when left out.
        atol: absolute tolerance, likewise.
    """
    if isinstance(modes, str) or not modes:
        raise ValueError(f"modes is a list of modes, such as {MODES}; got {modes!r}")
    given: Any = inputs
    if isinstance(given, Tensor):
        raise ValueError(
            "inputs is a list of arguments; got a tensor, whose rows would be the arguments: give [x]"
        )
    if "mode" in CompilerConfig.from_options(options).assigned():
        raise ValueError(f"options has a mode, and modes says which ones are tried: {tuple(modes)}")
    refuse_no_calls(calls)
    refuse_no_tolerance(rtol=rtol, atol=atol)
    runs = _Runs(tuple(inputs), dict(kwargs or {}), calls, backward)
    wanted = list(runs.of(fn, lambda each: each))
    for mode in modes:
        backend = Backend(effective_config(None, mode, options))
        torch._dynamo.reset()
        compiled = runs.of(fn, lambda each, used=backend: torch.compile(each, backend=used, dynamic=dynamic))  # type: ignore[misc]  # mypy does not infer lambdas with defaults
        for number, (expected, got) in enumerate(zip(wanted, compiled, strict=True)):
            _compare(expected, got, f"mode {mode!r}, call {number + 1} of {calls}", rtol, atol)


class _Runs:
    """A script of calls, each time with inputs and state of its own."""

    def __init__(self, inputs: tuple[Any, ...], kwargs: dict[str, Any], calls: int, backward: bool) -> None:
        self.inputs, self.kwargs, self.calls, self.backward = inputs, kwargs, calls, backward

    def of(self, fn: Callable[..., Any], made: Callable[[Any], Any]) -> Iterator[dict[str, Any]]:
        """What can be seen after each call of what `made` makes of a copy of `fn`."""
        own = copy.deepcopy(fn) if isinstance(fn, torch.nn.Module) else fn
        args, kwargs = copied((self.inputs, self.kwargs))
        run = made(own)
        torch.manual_seed(0)
        for _ in range(self.calls):
            with nullcontext() if self.backward else torch.no_grad():
                result = run(*args, **kwargs)
            if self.backward:
                _differentiate(result)
            seen = _seen(own, args, kwargs, result)
            yield {**tree_map_only(Tensor, _snapshot, seen), "shared memory": _sharing(result, args, kwargs)}


def _seen(own: Any, args: Any, kwargs: Any, result: Any) -> dict[str, Any]:
    seen: dict[str, Any] = {"result": result, "inputs": args, "keywords": kwargs}
    seen["gradients of inputs"] = [each.grad for each in _tensors((args, kwargs)) if each.is_leaf]
    if isinstance(own, torch.nn.Module):
        seen["buffers"] = dict(own.named_buffers())
        seen["gradients"] = {name: each.grad for name, each in own.named_parameters()}
    return seen


def _sharing(*values: Any) -> list[int]:
    """Of each tensor among results and inputs, the number of the first one that lies in the same memory."""
    storages = [storage_of(each) for each in _tensors(values) if each.layout is torch.strided]
    return [storages.index(each) for each in storages]


def _snapshot(tensor: Tensor) -> Tensor:
    return tensor.detach().clone(memory_format=torch.preserve_format)


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for _, leaf in tree_flatten_with_path(value)[0] if isinstance(leaf, Tensor)]


def _differentiate(result: Any) -> None:
    parts = [each.sum() for each in _tensors(result) if each.requires_grad]
    if not parts:
        raise ValueError("backward=True, and no result needs a gradient: mark an input or a parameter")
    torch.stack([part.float() for part in parts]).sum().backward()


def _compare(expected: Any, got: Any, where: str, rtol: float | None, atol: float | None) -> None:
    wanted, form = tree_flatten_with_path(expected)
    found, other = tree_flatten_with_path(got)
    if form != other:
        raise AssertionError(f"{where}: eager gives {_form(expected)}, compiled gives {_form(got)}")
    for (path, left), (_, right) in zip(wanted, found, strict=True):
        name = f"{path[0].key}{keystr(path[1:])}"  # type: ignore[attr-defined]  # the first key is of our own dict
        try:
            assert_same(right, left, rtol, atol, exact=True)
        except AssertionError as error:
            advice = "`air bisect module.py:build` names the pass, stream, converter or capture"
            raise AssertionError(f"{where}: {name} differs from eager\n{error}\n  advice  {advice}") from None


def _form(seen: Any) -> str:
    return str(torch.utils._pytree.tree_structure(seen["result"]))
