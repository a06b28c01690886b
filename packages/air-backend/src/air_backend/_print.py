"""`npu_print`: prints tensors from inside a compiled graph, every time it runs.

The call is an operator with a side effect, so no pass removes it. Eager code, run_eagerly and captured graphs of CPU
tensors print from the host. In Ascend IR it becomes StringFormat and PrintV2, which the engine runs in program order. A
graph captured on a device cannot call the host: there it is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx.node import has_side_effect

from air_backend.errors import BadPrint, BadPrintType

NAMESPACE: Final = "air_backend"
HOLE: Final = "{}"


def npu_print(*args: Any, summarize_size: int = 3, tensor_detail: bool = False) -> None:
    """Prints texts, numbers and tensors in one line; of a long axis the first and last `summarize_size` (-1: all)."""
    _check(args, summarize_size, tensor_detail)
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    hole = _hole_for(arg for arg in args if not isinstance(arg, Tensor))
    words = [_word(arg, hole, tensor_detail) for arg in args]
    torch.ops.air_backend.print(tensors, " ".join(words), hole, summarize_size, tensor_detail)


def _check(args: Sequence[Any], summarize_size: object, tensor_detail: object) -> None:
    for position, arg in enumerate(args):
        if not isinstance(arg, (Tensor, str, bool, int, float)):
            raise BadPrintType(
                f"argument {position} is a {type(arg).__name__}",
                "print tensors, texts, numbers and truth values",
            )
    if not any(isinstance(arg, Tensor) for arg in args):
        raise BadPrint(
            "no argument is a tensor", "give at least one tensor; Python's print says the rest at tracing"
        )
    size = f"summarize_size is {summarize_size!r}", "use a positive number, or -1 for every element"
    if isinstance(summarize_size, bool) or not isinstance(summarize_size, int):
        raise BadPrintType(*size)
    if summarize_size < -1 or not summarize_size:
        raise BadPrint(*size)
    if not isinstance(tensor_detail, bool):
        raise BadPrintType(f"tensor_detail is {tensor_detail!r}", "use True or False")


def _hole_for(others: Iterable[Any]) -> str:
    """A placeholder that none of the texts contains."""
    joined, hole, number = " ".join(map(str, others)), HOLE, 0
    while hole in joined:
        hole, number = f"{{{number}}}", number + 1
    return hole


def _word(arg: Any, hole: str, detail: bool) -> str:
    if not isinstance(arg, Tensor):
        return str(arg)
    return f"tensor({hole}, shape={hole}, dtype={arg.dtype})" if detail else hole


def summary(tensor: Tensor, size: int) -> str:
    """The elements of a tensor as text, the middle of long axes left out."""
    if tensor.dim() == 0:
        number = tensor.item()
        if isinstance(number, bool):
            number = int(number)  # as the engine prints it
        return f"{number:.9g}" if isinstance(number, float) else str(number)
    count = tensor.shape[0]
    if size < 0 or count <= 2 * size:
        shown = [summary(tensor[i], size) for i in range(count)]
    else:
        ends = [summary(tensor[i], size) for i in (*range(size), *range(count - size, count))]
        shown = [*ends[:size], "...", *ends[size:]]
    return "[" + (" " if tensor.dim() == 1 else "\n ").join(shown) + "]"


def _print(tensors: Sequence[Tensor], template: str, hole: str, size: int, detail: bool) -> None:
    for tensor in tensors:
        if _is_capturing(tensor.device):
            raise BadPrint(
                f"a graph that is captured on {tensor.device.type!r} cannot call the host",
                "set config.debug.run_eagerly = True while you look at values",
            )
        template = template.replace(hole, summary(tensor.detach().cpu(), size), 1)
        if detail:
            template = template.replace(hole, str(list(tensor.shape)), 1)
    sys.stdout.write(template + "\n")
    sys.stdout.flush()


def _is_capturing(device: torch.device) -> bool:
    module = None if device.type == "cpu" else torch.get_device_module(device)
    capturing = getattr(module, "is_current_stream_capturing", None)
    return bool(capturing and capturing())


def _declare() -> torch.library.Library:
    library = torch.library.Library(NAMESPACE, "DEF")
    library.define("print(Tensor[] tensors, str template, str hole, int size, bool detail) -> ()")
    library.impl("print", _print, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::print", lambda *args: None, lib=library)
    has_side_effect(torch.ops.air_backend.print.default)
    return library


_library: Final = _declare()  # deregistered when collected: the module keeps it
