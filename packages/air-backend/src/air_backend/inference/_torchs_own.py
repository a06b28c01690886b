"""A function or method that torch itself wrote, such as `nn.Sequential(...).forward`, as one that a file can hold.

Dynamo traces no function of torch's by itself: `torch.compile` wraps it in one that closes over the bound method, and
no file holds a module. So it is called from a function of ours, which is bound to the module as the other was.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, Final

from torch import nn
from torch._dynamo import trace_rules
from torch._dynamo.variables import TorchInGraphFunctionVariable

#: Those that Dynamo traces by themselves.
_TRACED: Final = frozenset({"_call_impl", "_wrapped_call_impl", "_lazy_forward"})


def traceable(func: Callable[..., Any]) -> Callable[..., Any]:
    """The function, or a method of ours that calls it."""
    if isinstance(func, FunctionType):
        rule = trace_rules.lookup(func)
        in_graph = isinstance(rule, type) and issubclass(rule, TorchInGraphFunctionVariable)
        return _calls_it(func) if in_graph or trace_rules.check(func) else func
    if not isinstance(func, MethodType) or not isinstance(func.__self__, nn.Module):
        return func
    name = func.__name__
    if name in _TRACED or getattr(type(func.__self__), name, None) is not func.__func__:
        return func
    return MethodType(_calls(name), func.__self__) if trace_rules.check(func) else func


def _calls_it(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def _calls(name: str) -> Callable[..., Any]:
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, name)(*args, **kwargs)

    return forward
