"""What a caller of the compiled function sees that a caller of eager does not."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from air_graph.testing._run import Step, Trace, ValueView

#: How far a rounded result may be off, as a part of the largest value beside it.
TOLERANCES: Final = {
    torch.float16: 3e-2,
    torch.bfloat16: 1e-1,
    torch.float32: 1e-4,
    torch.float64: 1e-6,
}
#: Larger numbers no longer hold the quarters that inputs are made of: their sums and products are rounded.
EXACT_BELOW: Final = 1e5


@dataclass(frozen=True)
class Difference:
    """One thing that differs, the first line of the script after which it does, and how."""

    kind: str
    path: str
    step: int
    text: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind} of {self.path} after `{self.text}`: {self.detail}"


#: Kinds of differences, the gravest first.
KINDS: Final = (
    "raises",
    "structure",
    "dtype",
    "device",
    "size",
    "value",
    "storage",
    "offset",
    "stride",
    "bits",
    "requires_grad",
    "identity",
    "stride of a size 1",
    "stride of an empty tensor",
)


def differences(
    expected: Trace, found: Trace, is_exact: bool, ignored: Collection[str] = ()
) -> list[Difference]:
    """All differences of the first step that has some, the gravest first; what follows from them is not listed."""
    for at, (left, right) in enumerate(zip(expected.steps, found.steps, strict=False)):
        listed = [d for d in _of_step(at, left, right, is_exact) if d.kind not in ignored]
        if listed:
            return sorted(listed, key=lambda d: KINDS.index(d.kind))
    if found.raised is not None and "raises" not in ignored and expected.raised is None:
        at = len(found.steps)
        return [Difference("raises", type(found.raised).__name__, at, found.failed, str(found.raised))]
    return []


def _of_step(at: int, left: Step, right: Step, is_exact: bool) -> Iterator[Difference]:
    for path in (*left.seen, *(p for p in right.seen if p not in left.seen)):
        if path not in right.seen or path not in left.seen:
            yield Difference(
                "structure",
                path,
                at,
                left.text,
                f"only {'eager' if path in left.seen else 'compiled'} has it",
            )
            continue
        for kind, detail in _of_value(left.seen[path], right.seen[path], is_exact):
            yield Difference(kind, path, at, left.text, detail)


def _of_value(left: ValueView, right: ValueView, is_exact: bool) -> Iterator[tuple[str, str]]:
    if not isinstance(left.value, Tensor) or not isinstance(right.value, Tensor):
        if type(left.value) is not type(right.value) or not _equal_plain(left.value, right.value):
            yield "value", f"{left.value!r} in eager, {right.value!r} compiled"
        return
    for kind in _FIELDS:
        one, other = getattr(left, kind), getattr(right, kind)
        if one != other:
            yield _trivial(kind, left, right), f"{one} in eager, {other} compiled"
    if (
        left.size == right.size
        and left.dtype == right.dtype
        and not same_values(left.value, right.value, is_exact)
    ):
        yield "value", f"\n    eager    {_short(left.value)}\n    compiled {_short(right.value)}"


_FIELDS: Final = (
    "dtype",
    "device",
    "size",
    "stride",
    "offset",
    "requires_grad",
    "bits",
    "storage",
    "identity",
)


def _trivial(kind: str, left: ValueView, right: ValueView) -> str:
    """Strides that no element is reached by get a name of their own."""
    if kind != "stride" or left.size != right.size:
        return kind
    if all(a == b or size == 1 for size, a, b in zip(left.size, left.stride, right.stride, strict=True)):
        return "stride of a size 1"
    return "stride of an empty tensor" if 0 in left.size else kind


def _equal_plain(left: Any, right: Any) -> bool:
    return bool(left == right) or (left != left and right != right)


def same_values(left: Tensor, right: Tensor, is_exact: bool) -> bool:
    """Equal, NaN with NaN; rounded ones to within the dtype's tolerance."""
    if left.is_complex():
        left, right = torch.view_as_real(left), torch.view_as_real(right)
    tolerance = TOLERANCES.get(left.dtype)
    if tolerance is None:
        return torch.equal(left, right)
    finite = left[left.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 1.0
    if is_exact and largest < EXACT_BELOW:
        return bool(((left == right) | (left.isnan() & right.isnan())).all())
    return torch.allclose(left, right, tolerance, tolerance * max(1.0, largest), equal_nan=True)


def _short(value: Tensor) -> str:
    text = " ".join(str(value.tolist()).split())
    return text if len(text) < 300 else text[:300] + " ..."
