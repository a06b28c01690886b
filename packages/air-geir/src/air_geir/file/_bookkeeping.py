"""Names of the attributes that files carry beside those of the operators."""

from __future__ import annotations

INPUT_NAMES = "_input_name_key"
INPUT_SLOTS = "_input_name_value"
OUTPUT_NAMES = "_output_name_key"
OUTPUT_SLOTS = "_output_name_value"
NAME_LISTS = (INPUT_NAMES, INPUT_SLOTS, OUTPUT_NAMES, OUTPUT_SLOTS)

UNFED = "_is_unfed_optional"
FORMAT = "format_for_int"
ORIGIN_FORMAT = "origin_format_for_int"
ORIGIN_FORMAT_SET = "origin_format_is_set"
ORIGIN_SHAPE = "origin_shape"
ORIGIN_SHAPE_SET = "origin_shape_initialized"
PARENT = "_parent_node_index"
"""In a subgraph: which input or output of the node around it an input or output stands for."""

DESC_ATTRS = (UNFED, FORMAT, ORIGIN_FORMAT, ORIGIN_FORMAT_SET, ORIGIN_SHAPE, ORIGIN_SHAPE_SET, PARENT)
"""Attributes of a descriptor that `TensorDesc` holds as fields."""
