"""`patch_for_hcom`: lets `dist.broadcast` and `dist.all_to_all` be compiled.

Dynamo rewrites the other in-place collectives of `torch.distributed` into functional ones by itself; at these two it
breaks the graph. After the patch a compiled function traces the functional form of them; code that is not being
compiled calls what it called before. Nothing else of torch is touched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import _functional_collectives as functional

PATCHED: Final = ("broadcast", "all_to_all")
ASYNC_AT: Final = 3
"""Where both take `async_op`: after two tensors, or a tensor and its source, and the group."""
ASYNC: Final = (
    "a collective with async_op=True cannot be part of a compiled graph: its handle lives outside. Leave async_op out; "
    "inside a graph the work overlaps with whatever does not need its result"
)


def patch_for_hcom() -> None:
    """Makes the collectives that torch does not trace traceable; calling it again changes nothing."""
    for name in PATCHED:
        original = getattr(dist, name)
        if not hasattr(original, "air_original"):
            setattr(dist, name, _traceable(original, _FORMS[name]))


def _traceable(original: Callable[..., Any], form: Callable[..., None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling():
            return original(*args, **kwargs)
        asynchronous = args[ASYNC_AT] if len(args) > ASYNC_AT else kwargs.get("async_op", False)
        if asynchronous:
            torch._dynamo.graph_break(msg=ASYNC)  # the handle is a value outside every graph
            return original(*args, **kwargs)
        named = {name: value for name, value in kwargs.items() if name != "async_op"}
        return form(*args[:ASYNC_AT], *args[ASYNC_AT + 1 :], **named)

    call.air_original = original  # type: ignore[attr-defined]  # the mark that it is ours
    return call


def _broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: dist.ProcessGroup | None = None,
    group_src: int | None = None,
) -> None:
    """`dist.broadcast` as its functional form and a copy."""
    among = _group(group)
    root = dist.get_group_rank(among, src or 0) if group_src is None else group_src
    tensor.copy_(functional.broadcast(tensor, root, among))


def _all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: dist.ProcessGroup | None = None,
) -> None:
    """`dist.all_to_all` as one exchange of flat pieces."""
    sent = [tensor.numel() for tensor in input_tensor_list]
    received = [tensor.numel() for tensor in output_tensor_list]
    flat = torch.cat([tensor.reshape(-1) for tensor in input_tensor_list])
    result = functional.all_to_all_single(flat, received, sent, _group(group))
    for place, piece in zip(output_tensor_list, torch.split(result, received), strict=True):
        place.copy_(piece.view(place.shape))


def _group(given: dist.ProcessGroup | None) -> dist.ProcessGroup:
    """The group that is meant: the one given, else all ranks."""
    group = given or dist.group.WORLD
    assert group is not None, "torch.distributed is initialised: the call is being traced"
    return group


_FORMS: Final[dict[str, Callable[..., None]]] = {"broadcast": _broadcast, "all_to_all": _all_to_all}
