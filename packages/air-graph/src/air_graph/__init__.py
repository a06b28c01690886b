"""Answers to common questions about an FX graph: effects, memory, source lines, order."""

from __future__ import annotations

from air_graph._captured import is_captured
from air_graph._collectives import (
    collectives_of_other_libraries,
    group_argument_of,
    is_collective,
    is_functional_collective,
    register_group_argument,
    waits_for_collective,
)
from air_graph._collector import collector_paused
from air_graph._constants import Symbols, decided_by_sizes
from air_graph._device_layouts import DeviceLayouts, lay_out_as_on_npu, lies_like_operand_on_npu
from air_graph._duplicates import duplicate
from air_graph._effects import (
    ArgumentEffect,
    Effects,
    effects_of,
    hidden_writers,
    hidden_writes,
    keeps_gaps,
    register_hidden_writes,
    register_may_return_argument,
    written_values,
)
from air_graph._examples import device_kinds, example_tensors
from air_graph._fakes import all_fake, fake_mode_of
from air_graph._hints import bytes_of, hint_of
from air_graph._in_flight import finish_collectives, inputs_in_flight, wait_for, waiting
from air_graph._in_place import functional_of, written_by_name
from air_graph._linear import NotLinear, followers_of, why_not_linear
from air_graph._links import Link, link_of, links_of, owner_of, shares_storage
from air_graph._long_products import mend_long_products
from air_graph._margins import mend_margins, multilabel_margin_loss
from air_graph._misstated import mend_layouts
from air_graph._nested_regions import inline_regions
from air_graph._no_memory import no_memory
from air_graph._offsets import mend_offsets
from air_graph._on_host import is_in_both, is_made_anew, is_on_host, needed_on_host
from air_graph._operators import (
    argument_problem,
    called_operator,
    find_operator,
    is_written,
    may_keep_state,
    name_of,
    qualified,
    written_arguments,
)
from air_graph._ordering import Ordering, ProgramOrder, StreamOrdering
from air_graph._out_forms import (
    OutForm,
    out_form_of,
    register_out_form,
    registered_out_forms,
    unregister_out_form,
)
from air_graph._owning import (
    Ownership,
    note_owning_results,
    owning_results,
    restore_detached,
)
from air_graph._places import PLAIN_NPU_FORMATS, copied, placed, same_place, with_bits_of
from air_graph._random import call_draws, draws_random_numbers
from air_graph._reach import addresses_storage, copies_with_gaps, surroundings_of
from air_graph._recompute import recompute_views
from air_graph._region import (
    Extent,
    Region,
    is_dense,
    read_alike,
    repeated_element,
    same_extents,
    surely,
    surely_disjoint,
    surely_within,
)
from air_graph._saved import SAVED_RESULTS, note_saved_results, saved_results
from air_graph._scatters import SCATTERS, view_arguments
from air_graph._source import (
    SourceLine,
    calling_line,
    has_line,
    lend_lines,
    nearest_source_of,
    place_of,
    source_of,
    start_of,
    warn_at,
)
from air_graph._stated_on_npu import state_dense_results_on_npu
from air_graph._static import static_inputs
from air_graph._storage import StorageKey, by_storage, leaf_storages, storage_key, storage_of
from air_graph._straight_calls import attribute
from air_graph._stretches import Stretch, Stretches
from air_graph._turned import turned_inputs
from air_graph._unknown_ranks import unknown_ranks
from air_graph._uses import (
    Use,
    arguments,
    bodies_of,
    effects_of_node,
    input_roots,
    is_opaque,
    named_arguments,
    nodes_in,
    operator_of,
    uses_of,
    writes,
    written_inputs,
)
from air_graph._version import __version__
from air_graph._views_on_npu import mend_views_on_npu
from air_graph._with_index import with_index
from air_graph._without_writes import without_writes
from air_graph._zeros import mend_zeros

__all__ = [
    "PLAIN_NPU_FORMATS",
    "SAVED_RESULTS",
    "SCATTERS",
    "ArgumentEffect",
    "DeviceLayouts",
    "Effects",
    "Extent",
    "Link",
    "NotLinear",
    "Ordering",
    "OutForm",
    "Ownership",
    "ProgramOrder",
    "Region",
    "SourceLine",
    "StorageKey",
    "StreamOrdering",
    "Stretch",
    "Stretches",
    "Symbols",
    "Use",
    "__version__",
    "addresses_storage",
    "all_fake",
    "argument_problem",
    "arguments",
    "attribute",
    "bodies_of",
    "by_storage",
    "bytes_of",
    "call_draws",
    "called_operator",
    "calling_line",
    "collectives_of_other_libraries",
    "collector_paused",
    "copied",
    "copies_with_gaps",
    "decided_by_sizes",
    "device_kinds",
    "draws_random_numbers",
    "duplicate",
    "effects_of",
    "effects_of_node",
    "example_tensors",
    "fake_mode_of",
    "find_operator",
    "finish_collectives",
    "followers_of",
    "functional_of",
    "group_argument_of",
    "has_line",
    "hidden_writers",
    "hidden_writes",
    "hint_of",
    "inline_regions",
    "input_roots",
    "inputs_in_flight",
    "is_captured",
    "is_collective",
    "is_dense",
    "is_functional_collective",
    "is_in_both",
    "is_made_anew",
    "is_on_host",
    "is_opaque",
    "is_written",
    "keeps_gaps",
    "lay_out_as_on_npu",
    "leaf_storages",
    "lend_lines",
    "lies_like_operand_on_npu",
    "link_of",
    "links_of",
    "may_keep_state",
    "mend_layouts",
    "mend_long_products",
    "mend_margins",
    "mend_offsets",
    "mend_views_on_npu",
    "mend_zeros",
    "multilabel_margin_loss",
    "name_of",
    "named_arguments",
    "nearest_source_of",
    "needed_on_host",
    "no_memory",
    "nodes_in",
    "note_owning_results",
    "note_saved_results",
    "operator_of",
    "out_form_of",
    "owner_of",
    "owning_results",
    "place_of",
    "placed",
    "qualified",
    "read_alike",
    "recompute_views",
    "register_group_argument",
    "register_hidden_writes",
    "register_may_return_argument",
    "register_out_form",
    "registered_out_forms",
    "repeated_element",
    "restore_detached",
    "same_extents",
    "same_place",
    "saved_results",
    "shares_storage",
    "source_of",
    "start_of",
    "state_dense_results_on_npu",
    "static_inputs",
    "storage_key",
    "storage_of",
    "surely",
    "surely_disjoint",
    "surely_within",
    "surroundings_of",
    "turned_inputs",
    "unknown_ranks",
    "unregister_out_form",
    "uses_of",
    "view_arguments",
    "wait_for",
    "waiting",
    "waits_for_collective",
    "warn_at",
    "why_not_linear",
    "with_bits_of",
    "with_index",
    "without_writes",
    "writes",
    "written_arguments",
    "written_by_name",
    "written_inputs",
    "written_values",
]
