"""The parameters that a capture reads, as its callers have them: when all are gone, so is what the capture holds.

    del model, compiled        the last of its parameters goes, and its captures with it

A capture keeps the memory that it reads, and Dynamo keeps what it compiled for the code of a model, whether there are
models of that code or not.  Nobody can replay a capture whose parameters are gone: no other tensor comes to lie where
they lay, as long as the capture keeps that memory.  Where somebody else has it (a state dict, another parameter over
the same storage), the capture stays.  Other inputs are not asked: a cache that its caller has let go of is the buffer
of the next one (`_moved`).
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import Tensor, nn

from air_aclgraph._captured import Captured
from air_aclgraph._kept import Loan
from air_aclgraph._moved import claims_of_recordings
from air_aclgraph._slots import Kind


class Owners:
    """The parameters of one capture, and what is called when they are gone."""

    def __init__(self, captured: Captured, args: Sequence[Any], gone: Callable[[], None]) -> None:
        self._gone = gone
        me = weakref.ref(self)
        self.places = [
            index
            for index, value in enumerate(args)
            if captured.kinds[index] is Kind.STATIC and isinstance(value, nn.Parameter)
        ]
        """Which inputs they are."""
        self._owned = [
            (weakref.ref(args[index], partial(_tell, me, at)), captured.inputs[index])
            for at, index in enumerate(self.places)
        ]
        self._first = 0  # those before it were gone in an earlier look
        self._read = [weakref.ref(value) for value in args if isinstance(value, nn.Parameter)]

    def are(self, parameters: set[int]) -> bool:
        """Whether the capture reads one of these parameters, given by their identity, where they lie or as copies."""
        return any(id(read()) in parameters for read in self._read)

    def look(self, going: int) -> None:
        """Tells when all of them are gone, and the memory of one is nobody's but the captures'.

        The one that is just going has its memory still.
        """
        while self._first < len(self._owned):
            if not _is_gone(*self._owned[self._first]):
                return
            self._first += 1
        self._first = 0
        memory = enumerate(memory for _, memory in self._owned)
        if all(_is_gone(*each) for each in self._owned) and any(
            _is_nobodys(m, at == going) for at, m in memory
        ):
            self._gone()


def _is_gone(owner: weakref.ref[nn.Parameter], memory: Tensor) -> bool:
    """Whether there is no such parameter any more, or it has other memory by now."""
    parameter = owner()
    return parameter is None or parameter.data_ptr() != memory.data_ptr()


def _is_nobodys(memory: Tensor, is_going: bool) -> bool:
    return not Loan.of(memory, claims_of_recordings(memory) + is_going).is_held()


def _tell(owners: weakref.ref[Owners], at: int, _: weakref.ref[Tensor]) -> None:
    found = owners()
    if found is not None and not sys.is_finalizing():
        found.look(at)
