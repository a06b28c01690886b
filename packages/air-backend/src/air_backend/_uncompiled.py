"""What was given to torch.compile, for those who compile it with a backend of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import MethodType
from typing import Any, Final

from torch import nn
from torch._dynamo.eval_frame import OptimizedModule

ORIGINAL: Final = "_torchdynamo_orig_callable"
WRAPPER: Final = "_torchdynamo_wrapper_id"
COMPILED_CALL: Final[str] = "_compiled_call_impl"
"""Where `module.compile()` puts what it makes."""


def uncompiled(function: Any) -> Any:
    """The function or module in what torch.compile returned; any other is given back."""
    while True:
        if isinstance(function, OptimizedModule):
            function = function._orig_mod
        elif isinstance(function, MethodType):
            inner = uncompiled(function.__func__)
            return function if inner is function.__func__ else MethodType(inner, function.__self__)
        elif is_compiled(function):
            function = getattr(function, ORIGINAL)
        else:
            return function


def is_compiled(function: Any) -> bool:
    """Whether torch.compile returned this function."""
    own = getattr(function, "__dict__", {})
    # functools.wraps copies the attributes, and the number is then that of another function
    mine = own.get(WRAPPER, id(function)) == id(function)
    return ORIGINAL in own and mine and not own.get("_torchdynamo_disable")


@contextlib.contextmanager
def modules_uncompiled(function: Any) -> Iterator[None]:
    """Calls of the module itself, and of those in it, reach `forward` as it is written."""
    changed: list[tuple[dict[str, Any], dict[str, Any]]] = []
    try:
        for module in function.modules() if isinstance(function, nn.Module) else ():
            own = vars(module)
            before: dict[str, Any] = {name: own[name] for name in ("forward", COMPILED_CALL) if name in own}
            plain = uncompiled(module.forward)
            if plain != module.forward or before.get(COMPILED_CALL) is not None:
                changed.append((own, before))
                own.update({"forward": plain, COMPILED_CALL: None})
        yield
    finally:
        for own, before in changed:
            for name in ("forward", COMPILED_CALL):
                own.pop(name, None)
            own.update(before)
