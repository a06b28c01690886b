"""The arguments that a capture holds: in a pinned call each is the one of the example, in the same memory and form.

A tensor that is the same object may have another form or other memory by then (`t_`, `resize_`, `set_`, `.data =
other`); a replay would go on in the form and the memory of the example. Both are asked in C++, for all tensors at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch._C._dynamo.guards import TensorGuards

import air_aclgraph
from air_backend.errors import PinnedArgument

_Form = tuple[torch.Size, tuple[int, ...], torch.dtype, int]

_PLAIN: Final = (Tensor, nn.Parameter)
"""What has memory and a form; the memory of a subclass is that of the tensors in it."""


class Held:
    """Those arguments of the example that a call does not copy, by their place."""

    def __init__(self, example: Sequence[Any], places: Iterable[int]) -> None:
        self._known = tuple((place, example[place]) for place in places)
        plain = [row for row in self._known if type(row[1]) in _PLAIN]
        self._forms = tuple((place, tensor, _form_of(tensor)) for place, tensor in plain)
        self._tensors = tuple(tensor for _, tensor in plain)
        self._stay = air_aclgraph.address_test(range(len(plain)), self._tensors)
        self._same_form: dict[bool, Callable[..., bool]] = {}  # torch asks otherwise in inference mode

    def check(self, leaves: Sequence[Any]) -> None:
        """Raises where an argument is another one, or lies otherwise than in the example."""
        for place, known in self._known:
            if leaves[place] is not known:
                _refuse_other(place, known, leaves[place])
        if self._tensors:
            same_form = self._same_form.get(torch.is_inference_mode_enabled())
            if same_form is None or not (same_form(*self._tensors) and self._stay(*self._tensors)):
                self._look_closely()

    def _look_closely(self) -> None:
        for place, tensor, form in self._forms:
            if (now := _form_of(tensor)) != form:
                what = f"another form, {_told(now)} and not {_told(form)},"
                if now[:-1] == form[:-1]:
                    what = "other memory"
                told = f"argument {place} has {what} since; the capture holds the example's memory"
                raise PinnedArgument(told)
        guards = TensorGuards(*self._tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        self._same_form[torch.is_inference_mode_enabled()] = guards.check


def _form_of(tensor: Tensor) -> _Form:
    if tensor.layout != torch.strided:
        return tensor.shape, (), tensor.dtype, 0
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.data_ptr()


def _told(form: _Form) -> str:
    shape, strides, dtype, _ = form
    return f"{str(dtype).removeprefix('torch.')}{list(shape)} with strides {list(strides)}"


def _refuse_other(place: int, known: Any, given: Any) -> None:
    if isinstance(known, Tensor):
        raise PinnedArgument(f"argument {place} is another tensor; the capture holds the example's memory")
    if type(given) is not type(known) or air_aclgraph.exact(given) != air_aclgraph.exact(known):
        raise PinnedArgument(f"argument {place} is {given!r}; the capture was made for {known!r}")
