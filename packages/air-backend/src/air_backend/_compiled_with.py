"""With what torch.compile made a function, for those who compile it again to look into it.

    c = torch.compile(model, backend="air", mode="reduce-overhead")
    how_to_compile(c, None, "explain").config.mode      # "reduce-overhead"

A configuration that the call itself got comes first, and a function that nobody compiled has the default one.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MethodType
from typing import Any, Final

from torch import nn
from torch._dynamo.eval_frame import OptimizedModule, innermost_backend

from air_backend._backend import Backend, config_given, effective_config
from air_backend._uncompiled import COMPILED_CALL, is_compiled, uncompiled
from air_backend.errors import CompiledByAnother, NotAParameter
from air_config import CompilerConfig

__all__ = ["How", "how_to_compile", "refuse_words_of_compile"]

WORDS: Final = ("mode", "options", "backend", "fullgraph", "config", "dynamic")
"""What torch.compile takes, or what people call a configuration."""


@dataclass(frozen=True)
class How:
    """What a function is compiled by, and where that comes from."""

    config: CompilerConfig
    whose: str
    decompositions: Mapping[Any, Callable[..., Any]] = field(default_factory=dict)
    dynamic: bool | None = None


def how_to_compile(function: Any, given: CompilerConfig | None, call: str) -> How:
    """The configuration that `call` got, or else the one that the function was compiled with, or else the default."""
    config = config_given(given, call)
    if given is not None:
        return How(config, "given to this call")
    compiled = _outermost(function)
    if compiled is None:
        return How(config, "the default")
    asked = innermost_backend(_callback(compiled))
    backend = getattr(asked, "compiler_fn", asked)
    if not isinstance(backend, Backend):
        name = getattr(asked, "compiler_name", None) or getattr(backend, "__name__", type(backend).__name__)
        warnings.warn(CompiledByAnother(call, str(name)), stacklevel=3)
        return How(config, "the default")
    words: Mapping[str, Any] = getattr(asked, "kwargs", {})
    config = effective_config(backend.config, words.get("mode"), words.get("options"))
    return How(config, "that of torch.compile", backend.decompositions, getattr(asked, "dynamic", None))


def refuse_words_of_compile(
    function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], call: str
) -> None:
    """An argument of torch.compile that the function itself does not take."""
    words = [name for name in kwargs if name in WORDS]
    if not words:
        return
    plain = uncompiled(function)
    try:
        inspect.signature(plain.forward if isinstance(plain, nn.Module) else plain).bind(*args, **kwargs)
    except TypeError:
        raise NotAParameter(call, words[0]) from None
    except ValueError:  # a builtin that does not tell
        return


def _outermost(function: Any) -> Any:
    """What torch.compile returned, in whatever holds it; None where nothing does."""
    if isinstance(function, OptimizedModule) or is_compiled(function):
        return function
    if isinstance(function, MethodType):
        return _outermost(function.__func__)
    if isinstance(function, nn.Module):
        places = (getattr(function, name, None) for name in (COMPILED_CALL, "forward"))
        return next((found for place in places if (found := _outermost(place)) is not None), None)
    return None


def _callback(compiled: Any) -> Any:
    """What Dynamo calls for its frames: it leads to the backend."""
    if isinstance(compiled, OptimizedModule):
        return compiled.dynamo_ctx.callback
    variables = inspect.getclosurevars(compiled).nonlocals
    return variables.get("callback")
