"""What this package knows about operators, as rows with public `register_*` calls."""

from __future__ import annotations

from air_fxpasses.tables._operators import find_operator
from air_fxpasses.tables._outs import (
    OutTwin,
    out_twin_of,
    register_out_twin,
    registered_out_twins,
    unregister_out_twin,
)
from air_fxpasses.tables._twins import (
    Twin,
    register_inplace_twin,
    registered_inplace_twins,
    twin_of,
    unregister_inplace_twin,
)
from air_fxpasses.tables._updatable import (
    Updatable,
    register_updatable,
    registered_updatable,
    unregister_updatable,
    updatable_of,
)

__all__ = [
    "OutTwin",
    "Twin",
    "Updatable",
    "find_operator",
    "out_twin_of",
    "register_inplace_twin",
    "register_out_twin",
    "register_updatable",
    "registered_inplace_twins",
    "registered_out_twins",
    "registered_updatable",
    "twin_of",
    "unregister_inplace_twin",
    "unregister_out_twin",
    "unregister_updatable",
    "updatable_of",
]
