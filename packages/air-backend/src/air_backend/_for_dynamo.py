"""What Dynamo calls: the function that AOTAutograd made of a graph, with all that AIR has to see to in its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx

from air_backend import _minifier
from air_backend._aliasing_check import without_check_of_classes
from air_backend._compilation import Compilation
from air_backend._hidden_writes import Around
from air_backend.eager_calls._shared_calls import shared_as_traced
from air_backend.eager_calls._tangents import with_tangents
from air_backend.eager_calls._twice import twice_differentiable
from air_backend.eager_calls._without_values import first_without_values


def for_dynamo(
    compiled: Callable[..., Any],
    gm: fx.GraphModule,
    original: fx.GraphModule,
    compilation: Compilation,
    around: Around,
) -> Callable[..., Any]:
    """The function for a graph of Dynamo; `original` is that graph as it came, and serves calls of another kind.

    torch's minifier wants to see every call as AOTAutograd would get it. A file holds no second derivatives.
    """
    traced = call = around(_minifier.unboxed(compiled))
    is_watched = _minifier.is_watching()
    if not is_watched:
        call = without_check_of_classes(call)
        if not compilation.to_file:
            call = twice_differentiable(call, original, compilation.repeatable)
        call = compilation.direct_call.around(call, with_tangents(original, compilation.config))
    call = shared_as_traced(call, original, compilation.sharing, compilation.config)
    return first_without_values(traced, _minifier.compared(call, gm) if is_watched else call)
