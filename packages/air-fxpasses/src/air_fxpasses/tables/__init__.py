"""What this package knows about operators, as rows with public `register_*` calls."""

from __future__ import annotations

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
from air_graph import OutForm as OutTwin
from air_graph import find_operator
from air_graph import out_form_of as out_twin_of
from air_graph import register_out_form as register_out_twin
from air_graph import registered_out_forms as registered_out_twins
from air_graph import unregister_out_form as unregister_out_twin

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
