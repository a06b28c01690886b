"""The passes AIR runs when nothing else is asked for, in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torch.fx import GraphModule

from air_fxpasses._pass import Pass
from air_fxpasses.passes import (
    CustomPass,
    DecomposeAutoFunctionalized,
    EliminateCat,
    EliminateDeadCode,
    FusePatterns,
    ReadRepeatsOnce,
    RecoverViewInplace,
    ReinplaceInplaceable,
    ReinplaceInputMutated,
    RemoveNoop,
    ReuseValues,
)

#: What a user may give as `pre` or `post`: a pass, or a function that edits the graph module in place.
Custom = Pass | Callable[[GraphModule], Any]

_PRE: Final = CustomPass(label="custom_pre")
_POST: Final = CustomPass(label="custom_post")
ORDER: Final[tuple[Pass, ...]] = (
    _PRE,
    EliminateDeadCode(),
    DecomposeAutoFunctionalized(),
    RemoveNoop(),
    RecoverViewInplace(),
    FusePatterns(),
    ReadRepeatsOnce(),
    ReuseValues(),
    _POST,
    EliminateCat(),
    ReinplaceInplaceable(),
    ReinplaceInputMutated(),
    EliminateDeadCode(),
)


def default_passes(
    wanted: Callable[[Pass], bool] = lambda one: True,
    *,
    pre: Custom | None = None,
    post: Custom | None = None,
) -> tuple[Pass, ...]:
    """The default pipeline, of the passes that are wanted.

    `pre` runs first, `post` after the functional rewrites and before memory is shared.
    """
    given: dict[Pass, Custom | None] = {_PRE: pre, _POST: post}
    order = (one if (own := given.get(one)) is None else CustomPass.of(own, one.name) for one in ORDER)
    return tuple(one for one in order if one not in given and wanted(one))
