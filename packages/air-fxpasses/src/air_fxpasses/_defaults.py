"""The passes AIR runs when nothing else is asked for, in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.fx import GraphModule

from air_fxpasses._pass import Pass
from air_fxpasses.passes import (
    CustomPass,
    DecomposeAutoFunctionalized,
    EliminateCat,
    EliminateDeadCode,
    FusePatterns,
    RecoverViewInplace,
    ReinplaceInplaceable,
    ReinplaceInputMutated,
    RemoveNoop,
)

#: What a user may give as `pre` or `post`: a pass, or a function that edits the graph module in place.
Custom = Pass | Callable[[GraphModule], Any]


def default_passes(
    *,
    reinplace_inplaceable: bool = True,
    reinplace_input_mutated: bool = True,
    remove_noop: bool = True,
    remove_cat: bool = True,
    fuse_patterns: bool = True,
    view_inplace: bool = True,
    pre: Custom | None = None,
    post: Custom | None = None,
    reinplace_off_because: str = "",
) -> tuple[Pass, ...]:
    """The default pipeline.

    `pre` runs first, `post` after the functional rewrites and before memory is shared. A reason in
    `reinplace_off_because` keeps both reinplacing passes in the pipeline, refusing every candidate with it.
    """
    chosen: list[Pass] = []
    if pre is not None:
        chosen.append(CustomPass.of(pre, "custom_pre"))
    chosen.extend((EliminateDeadCode(), DecomposeAutoFunctionalized()))
    if remove_noop:
        chosen.append(RemoveNoop())
    if view_inplace:
        chosen.append(RecoverViewInplace(off_because=reinplace_off_because))
    if fuse_patterns:
        chosen.append(FusePatterns())
    if post is not None:
        chosen.append(CustomPass.of(post, "custom_post"))
    if remove_cat:
        chosen.append(EliminateCat())
    if reinplace_inplaceable:
        chosen.append(ReinplaceInplaceable(off_because=reinplace_off_because))
    if reinplace_input_mutated:
        chosen.append(ReinplaceInputMutated(off_because=reinplace_off_because))
    chosen.append(EliminateDeadCode())
    return tuple(chosen)
