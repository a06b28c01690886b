"""Memory that the forward half of a training step lends its backward half.

    forward   replays, and hands out what it saves for the backward in its own memory, without a copy
    backward  is captured with that memory, and reads it where it lies, without a copy; views of parameters too
    forward   looks whether autograd has let go of it, and writes it again

What a step saves is most of its memory.  Copied both times it would be there four times: where the forward computes
it, where its capture leaves it, in the copy that autograd has, and in the copy that the backward reads.

The forward has a pool for itself, so that no other capture computes in what it lends.  Each shape has such memory, so
only the first one lends: copies are given back.  Modules that share a graph are captured with one shape, each for
itself, and each lends: what they save is there at the same time anyway.

Nothing is lent where hooks take what is saved.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from air_aclgraph._captured import Captured, anew
from air_aclgraph._kept import Keeping, Loan, Stage
from air_aclgraph._memory import overlaps_itself, used_of, whole
from air_aclgraph._moved import storages_lent
from air_aclgraph._outputs import InputView, Output, OwnMemory, Repeated
from air_aclgraph._policy import MOVES_ALLOWED, KeyPolicy
from air_aclgraph._slots import Kind
from air_graph import by_storage, storage_of

_hooks_of_saved: Final = torch._C._autograd._top_saved_tensors_default_hooks


def are_put_elsewhere() -> bool:
    """Whether hooks take what is saved now: they may read it on streams of their own, which nobody waits for."""
    return _hooks_of_saved(True) is not None


def lent_places(keeping: Keeping, outputs: Sequence[Output], saved: Collection[int]) -> frozenset[int]:
    """The outputs in memory of the capture that callers get without a copy."""
    own = [output.tensor if isinstance(output, OwnMemory) else None for output in outputs]
    places = {place for place, tensor in enumerate(own) if tensor is not None}
    if keeping.stage is Stage.LENT:
        return frozenset(places)
    if keeping.stage is not Stage.SAVED:
        return frozenset()
    free = places.intersection(saved) - keeping.unlent
    together = (group for group in by_storage(own) if free.issuperset(group))
    return frozenset(place for group in together for place in group)


def bind_lent(policy: KeyPolicy, args: Sequence[Any], bindable: Collection[int]) -> tuple[Kind, ...]:
    """The kinds of the inputs of a capture that is to be made: what a forward half lends is read where it lies."""
    lent = storages_lent()
    for index in bindable:
        kind = policy.kinds[index]
        if kind not in (Kind.COPIED, Kind.LENT):
            continue
        stays = storage_of(args[index]) in lent and policy.moves[index] <= MOVES_ALLOWED
        policy.kinds[index] = Kind.LENT if stays else Kind.COPIED
    return tuple(policy.kinds)


def storages_to_bind(
    outputs: Sequence[Output],
    saved: Collection[int],
    inputs: Sequence[Any],
    kinds: Sequence[Kind],
    loans: Sequence[Loan],
) -> frozenset[int]:
    """The storages that a backward half reads where they are: what is lent, and parameters that it gets views of."""
    views = (output for place, output in enumerate(outputs) if place in saved)
    read = {view.index for view in views if isinstance(view, InputView)}
    parameters = (storage_of(inputs[index]) for index in read if kinds[index] is Kind.STATIC)
    return frozenset((*(loan.storage for loan in loans), *parameters))


def handed_out(captured: Captured, made: Sequence[Any], *, computed_there: bool) -> tuple[Any, ...]:
    """The results of the first call of a key: what is saved for the backward half lies in the capture's memory.

    There the backward half finds it in every call, so it is captured once.
    """
    given = list(made)
    outputs = captured.outputs
    for group in by_storage([o.tensor if isinstance(o, OwnMemory) else None for o in outputs]):
        own = [output for output in (outputs[place] for place in group) if isinstance(output, OwnMemory)]
        elsewhere = made[group[0]].device != own[0].tensor.device  # seeds of attention
        if elsewhere or storage_of(own[0].tensor) not in captured.recording.lent:
            continue
        if computed_there or _filled([one.tensor for one in own], [made[place] for place in group]):
            for place, tensor in zip(group, anew(own), strict=True):
                given[place] = tensor
    for place, output in enumerate(outputs):
        if isinstance(output, Repeated):
            given[place] = given[output.place]
    return tuple(given)


def _filled(tensors: Sequence[Tensor], values: Sequence[Tensor]) -> bool:
    """Copies values that lie in one storage to where those of a capture lie, if they lie there in the same way."""
    with torch.no_grad():
        if len(tensors) == 1 and not overlaps_itself(tensors[0]):
            tensors[0].copy_(values[0])
            return True
        alike = all(_place(tensor) == _place(value) for tensor, value in zip(tensors, values, strict=True))
        if not alike or len({storage_of(value) for value in values}) > 1:
            return False
        low, high = used_of(tensors)
        whole(tensors[0])[low:high].copy_(whole(values[0])[low:high])
    return True


def _place(tensor: Tensor) -> tuple[object, ...]:
    return tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype
