"""A function without writes, also where torch's dispatcher leaves functorch out.

    traced = make_fx(without_writes(function))(*inputs)

Inside a `__torch_dispatch__`, of a mode or of a class of tensors, the dispatcher passes over functorch, and
`torch.func.functionalize` hands its wrappers to whoever traces.  A program may compile a function there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def without_writes(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with new values in the place of writes; those of its arguments are copied into them at the end."""
    functional: Callable[..., Any] = torch.func.functionalize(function, remove="mutations")

    def called(*args: Any) -> Any:
        included = torch._C._dispatch_tls_local_include_set()
        left_out = torch._C._dispatch_tls_local_exclude_set()
        functorch = torch._C.DispatchKey.FuncTorchDynamicLayerFrontMode
        with torch._C._ForceDispatchKeyGuard(included, left_out.remove(functorch)):
            return functional(*args)

    return called
