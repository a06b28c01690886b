"""Lets torch's cache compare the float arguments that a trace has looked at.

    def step(x, n):                             # n is open: torch.compile(step, dynamic=True)
        return x * n, torch.full((2,), n)       # AOTAutograd writes the number of this call into the graph

torch keeps the conditions of such a trace with its entry only as far as they are about whole numbers, and finds the
entry again for any float. Here the floats of the inputs are among the numbers that an entry has conditions on. An entry
whose conditions do not hold is left alone; the conditions of one that is used become conditions of Dynamo's.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from functools import cache
from typing import Any, Final

import torch
from torch._functorch._aot_autograd import autograd_cache
from torch._subclasses.fake_tensor import FakeTensor

#: What gives a number of this call for an open one, in the versions of torch.
_HINT: Final = next(name for name in ("guarding_hint_or_throw", "size_hint") if hasattr(autograd_cache, name))
#: Of every open float; to ask it of one makes the float a constant, and Dynamo leaves none open that is no number.
_IS_A_NUMBER: Final = re.compile(r"not math\.isnan\(L\['t\d+'\]\)")
_AND: Final = " and "


_compared: Final[ContextVar[bool]] = ContextVar("air_backend_floats_in_cache", default=False)


@contextlib.contextmanager
def floats_compared() -> Iterator[None]:
    """While this context is entered, the conditions of an entry are about floats as well."""
    _teach_the_cache()
    token = _compared.set(True)
    try:
        yield
    finally:
        _compared.reset(token)


@cache
def _teach_the_cache() -> None:
    """Puts functions of ours around those of torch's cache, once; outside of the context they do what those do."""
    owner: Any = autograd_cache.AOTAutogradCache
    whole_numbers, text_of = owner._filter_backed_symints, owner.generate_guards_expression
    hint_of = getattr(autograd_cache, _HINT)

    def numbers(inputs: Sequence[Any]) -> list[Any]:
        return [*whole_numbers(inputs), *(_open_floats(inputs) if _compared.get() else ())]

    def hint(number: Any) -> Any:
        return number.node.hint if isinstance(number, torch.SymFloat) else hint_of(number)

    def text(info: Any) -> str | None:
        found: str | None = text_of(info)
        return _without_questions(found) if found and _compared.get() else found

    owner._filter_backed_symints, owner.generate_guards_expression = staticmethod(numbers), staticmethod(text)
    setattr(autograd_cache, _HINT, hint)


def _without_questions(text: str) -> str | None:
    return _AND.join(part for part in text.split(_AND) if not _IS_A_NUMBER.fullmatch(part)) or None


def _open_floats(inputs: Sequence[Any]) -> Iterator[torch.SymFloat]:
    """The numbers behind inputs of no dimension: Dynamo hands a float over as a tensor."""
    for one in inputs:
        number = one.item_memo if isinstance(one, FakeTensor) else one
        if isinstance(number, torch.SymFloat) and number.node.hint is not None:
            yield number
