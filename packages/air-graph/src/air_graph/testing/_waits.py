"""Operators that wait for numbers of the device and say so, or do not, and sizes that depend on data.

No capture can hold the operators. One is tagged as torch asks it to be, the others have to be found out: one
computes, one writes in place, one gives back as many rows as the data says.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from air_graph.testing._rows import Row
from air_graph.testing._scope import at_least, is_float, is_number

some = at_least(1)


def some_numbers(value: Tensor) -> bool:
    return is_number(value) and value.numel() > 0


def some_floats(value: Tensor) -> bool:
    return is_float(value) and value.numel() > 0


def _scaled(x: Tensor) -> Tensor:
    times = x * (2 if bool((x != 0).any().item()) else 3)
    return times.to(x.dtype)  # truth values times a number are numbers


def _add(x: Tensor, y: Tensor) -> None:
    x.add_(y if bool((y != 0).any().item()) else y + 1)


def _kept(x: Tensor) -> Tensor:
    return x[: int((x != 0).sum().item()) % (x.shape[0] + 1)].clone(memory_format=torch.contiguous_format)


def _unknown_rows(x: Tensor) -> Tensor:
    rows: Any = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty((rows, *x.shape[1:]))


def _nothing(x: Tensor, y: Tensor) -> None:
    return None


def _register() -> None:
    unsafe = (torch.Tag.cudagraph_unsafe,)
    define, fake = torch.library.define, torch.library.register_fake
    for name, signature, tags, kernel, foreseen in (
        ("scaled", "(Tensor x) -> Tensor", (), _scaled, torch.empty_like),
        ("scaled_and_tagged", "(Tensor x) -> Tensor", unsafe, _scaled, torch.empty_like),
        ("add_", "(Tensor(a!) x, Tensor y) -> ()", (), _add, _nothing),
        ("kept", "(Tensor x) -> Tensor", (torch.Tag.dynamic_output_shape,), _kept, _unknown_rows),
    ):
        full = f"air_testing::{name}"
        define(full, signature, tags=tags)
        torch.library.impl(full, "default", kernel)
        fake(full, foreseen)


_register()

WAITS: Final = (
    Row("torch.ops.air_testing.scaled({x})", exact=True),
    Row("torch.ops.air_testing.scaled_and_tagged({x})", exact=True),
    Row("torch.ops.air_testing.add_({x}, {like})", results=0, exact=True),
    Row("torch.ops.air_testing.kept({x})", some, exact=True),
    Row("torch.ops.air_testing.kept({x}).sum()", some, exact=True, tag="kept.sum"),
    Row("{x}[{mask}].sum()", some, exact=True, tag="getitem_mask.sum"),
    Row("{x}[{mask}] * {c}", some, exact=True, tag="getitem_mask.mul"),
    Row("{x}.nonzero().sum(0)", some, exact=True),
    Row("{x}.repeat_interleave(2, {d}).nonzero()", some, exact=True),
    Row("{x} * {x}.amax().item()", some_numbers, exact=True, tag="item"),
    Row("{x}.new_full((int({x}.count_nonzero()) + 1,), 2)", exact=True, tag="new_full_of_count"),
    Row("{x}[: int({x}.count_nonzero()) % 2 + 1]", some, exact=True, tag="getitem_count"),
    Row("torch.where({x} > 0)[0] + 1", lambda t: some(t) and is_number(t), exact=True, tag="where"),
    Row("{x}[{mask}] = {x}.sum()", some_floats, results=0, exact=True, tag="setitem_mask"),
    Row("{x}[{mask}] = -{x}[{mask}]", some_numbers, results=0, exact=True, tag="setitem_mask"),
)
"""What cuts a graph into pieces, as statements."""
