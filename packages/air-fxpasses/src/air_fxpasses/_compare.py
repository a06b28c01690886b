"""Whether two runs look the same to the caller: values, layouts, written inputs, and shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from air_fxpasses._run import ONLY_BYTES, Outcome


def difference(before: Outcome, after: Outcome, rtol: float = 0.0) -> str | None:
    """What a caller sees differ between two runs on equal inputs; `None` when nothing does."""
    if len(before.outputs) != len(after.outputs):
        return f"{len(after.outputs)} outputs instead of {len(before.outputs)}"
    for kind, old, new in (("output", before.outputs, after.outputs), ("input", before.inputs, after.inputs)):
        for index, (a, b) in enumerate(zip(old, new, strict=True)):
            problem = _value_difference(a, b, rtol)
            if problem is not None:
                return f"{kind} {index} {problem}"
    return _sharing_difference(before, after)


def _value_difference(a: Any, b: Any, rtol: float) -> str | None:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return None if type(a) is type(b) and a == b else f"is {b!r} instead of {a!r}"
    for what, old, new in (
        ("type", a.dtype, b.dtype),
        ("size", tuple(a.size()), tuple(b.size())),
        ("device", a.device, b.device),
    ):
        if old != new:
            return f"has {what} {new} instead of {old}"
    if a.layout is torch.strided and a.numel() > 1 and _strides(a) != _strides(b):
        return f"has strides {b.stride()} instead of {a.stride()}"
    return _element_difference(a, b, rtol)


def _strides(tensor: torch.Tensor) -> list[int]:
    return [s for s, n in zip(tensor.stride(), tensor.size(), strict=True) if n != 1]


def _element_difference(a: torch.Tensor, b: torch.Tensor, rtol: float) -> str | None:
    if a.dtype in ONLY_BYTES:
        a, b = a.view(torch.uint8), b.view(torch.uint8)
    if torch.equal(a, b):
        return None
    try:
        torch.testing.assert_close(b, a, rtol=rtol, atol=rtol, equal_nan=True)
    except AssertionError as error:
        return "differs: " + " ".join(str(error).split())
    return None


def _sharing_difference(before: Outcome, after: Outcome) -> str | None:
    """An output may not share memory with an input or an output that it did not share with before."""
    old, new = _sharing(before), _sharing(after)
    extra = sorted(new - old)
    if not extra:
        return None
    (kind, index), other = extra[0]
    return f"{kind} {index} shares memory with {other[0]} {other[1]}, which it did not before"


def _sharing(outcome: Outcome) -> set[tuple[tuple[str, int], tuple[str, int]]]:
    places = [*_places("output", outcome.outputs), *_places("input", outcome.inputs)]
    return {
        (a, b)
        for i, (a, mine) in enumerate(places)
        for b, theirs in places[i + 1 :]
        if mine == theirs and a[0] == "output"
    }


def _places(kind: str, values: Sequence[Any]) -> list[tuple[tuple[str, int], int]]:
    return [
        ((kind, i), v.untyped_storage().data_ptr())
        for i, v in enumerate(values)
        if isinstance(v, torch.Tensor) and v.layout is torch.strided and v.numel()
    ]
