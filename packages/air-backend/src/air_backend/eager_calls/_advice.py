"""What helps where torch cannot trace a graph, by the error that it raised."""

from __future__ import annotations

from typing import Final

from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

_OF_VALUES: Final = (
    "take what needs values of a tensor, or a size that depends on them, out of the compiled function"
)
#: An operator reads values, which are not known while a graph is traced: what helps, by the error.
_BY_KIND: Final = {
    DataDependentOutputException: (
        f"for a number of the program's (item()) set torch._dynamo.config.capture_scalar_outputs; else {_OF_VALUES}"
    ),
    DynamicOutputShapeException: (
        f"set torch._dynamo.config.capture_dynamic_output_shape_ops, or {_OF_VALUES}"
    ),
    GuardOnDataDependentSymNode: _OF_VALUES,
}
#: Words in other errors of torch, and what helps.
_BY_WORDS: Final = {
    "Cannot view a tensor": "write to a value of its own instead of a view: x = x.add(y), not x.add_(y)",
    "modified by an inplace operation": "keep the value that the gradient needs: y = y.relu(), not y.relu_()",
    "TensorWrapper": "call what torch.func gives inside the compiled function, and give back the values",
    "CUDA not available": "leave torch._functorch.config.functionalize_rng_ops off: it is for CUDA devices",
}
_ANYTHING: Final = "write the line in other words, or take it out of the compiled function"


def advice_for(error: Exception) -> str:
    """The advice for an error that torch raised while it traced."""
    for kind, advice in _BY_KIND.items():
        if isinstance(error, kind):
            return advice
    text = str(error)
    return next((advice for words, advice in _BY_WORDS.items() if words in text), _ANYTHING)
