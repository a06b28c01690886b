"""Generates the tables of the operator library from op-plugin's function list and the installed torch and torch_npu."""

from air_sim.opgen._docs import operators_page
from air_sim.opgen._names import defined_in, exported, largest_workspace_of, named_by, probed_by
from air_sim.opgen._structural import Structural, aten_functions, entries_of, structural

__all__ = [
    "Structural",
    "aten_functions",
    "defined_in",
    "entries_of",
    "exported",
    "largest_workspace_of",
    "named_by",
    "operators_page",
    "probed_by",
    "structural",
]
