"""Functionalisation of operators that have a functional twin.

    y = update_(cache, x)        ->        y, new = update_functional(cache, x);  cache is `new` from here on

Without this, torch would wrap the call into `auto_functionalized`, or refuse it where the result is the
argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.functional_tensor import CppFunctionalizeAPI

from air_fxpasses.npu_cards._card import NpuOp
from air_fxpasses.tables import Twin, twin_of
from air_graph import find_operator


def functionalized(op: NpuOp) -> Callable[..., Any]:
    """The kernel of `op` for the time of functionalisation."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        twin = twin_of(find_operator(f"npu::{op.functional}"))
        if twin is None:
            raise LookupError(f"npu::{op.functional} is no functional twin of npu::{op.name}")
        names = [a.name for a in twin.inplace._schema.arguments]
        bound = {**dict(zip(names, args, strict=False)), **kwargs}
        return _call(twin, bound, args, kwargs)

    return kernel


def _call(twin: Twin, bound: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    api = CppFunctionalizeAPI()
    plain_args: Any = api.unwrap_tensors(args)
    plain_kwargs: Any = dict(zip(kwargs, api.unwrap_tensors(tuple(kwargs.values())), strict=True))
    written = [bound[name] for name in twin.mutated]
    with api.redispatch_to_next():
        if not all(torch._is_functional_tensor(tensor) for tensor in written):
            return twin.inplace(*plain_args, **plain_kwargs)
        results = twin.functional(*plain_args, **plain_kwargs)
    values = results if isinstance(results, (tuple, list)) else (results,)
    for where, value in zip(twin.results, values, strict=True):
        if isinstance(where, str):
            api.replace(bound[where], value)
            api.commit_update(bound[where])
            api.sync(bound[where])
    if twin.returns_self:
        return written[0]
    others = [value for where, value in zip(twin.results, values, strict=True) if isinstance(where, int)]
    wrapped = api.wrap_tensors(tuple(others))
    return wrapped if len(wrapped) > 1 else wrapped[0]
