"""The flat form of options, as `torch.compile(options={...})` takes them, and the table that maps its names.

Three spellings are understood: the names of npugraph_ex, the dotted path, and the dotted path without `air.`.
Some names of npugraph_ex mean the opposite of the option they set; those rows say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from air_config import errors
from air_config._option import Group, nearest
from air_config._tree import BY_NAME, OPTIONS, Tree, nearest_path

__all__ = ["FLAT_OPTIONS", "FlatOption", "read_options", "spelling"]


@attrs.frozen
class FlatOption:
    """One flat name: the path it sets, and whether it sets the opposite."""

    name: str
    path: str
    inverted: bool = False


_ACLGRAPH: Final = "debug.aclgraph."
_STATIC: Final = "experimental_config.aclgraph."

_NPUGRAPH_EX: Final = (
    FlatOption("force_eager", "debug.run_eagerly"),
    FlatOption("use_graph_pool", "aclgraph_config.use_custom_pool"),
    FlatOption("reuse_graph_pool_in_same_fx", _ACLGRAPH + "disable_mempool_reuse_in_same_fx", inverted=True),
    FlatOption("capture_limit", _ACLGRAPH + "static_capture_size_limit"),
    FlatOption("clone_input", _ACLGRAPH + "clone_input"),
    FlatOption("clone_output", _ACLGRAPH + "enable_output_clone"),
    FlatOption("static_kernel_compile", _STATIC + "_aclnn_static_shape_kernel"),
    FlatOption("disable_static_kernel_compile_cache", _STATIC + "disable_static_kernel_compile_cache"),
    FlatOption("_vllm_aclnn_static_kernel_sym_index", _STATIC + "_aclnn_static_shape_kernel_sym_index"),
    FlatOption("_vllm_aclnn_static_kernel_sym_range", _STATIC + "_aclnn_static_shape_kernel_sym_value_range"),
    FlatOption("super_kernel_optimize", _STATIC + "_super_kernel_optimize"),
    FlatOption("super_kernel_optimize_options", _STATIC + "_super_kernel_optimize_options"),
    FlatOption("super_kernel_debug_options", _STATIC + "_super_kernel_debug_options"),
    FlatOption("frozen_parameter", "experimental_config.frozen_parameter"),
    FlatOption("remove_noop_ops", "experimental_config.remove_noop_ops"),
    FlatOption("pattern_fusion_pass", "experimental_config.pattern_fusion_pass"),
    FlatOption("remove_cat_ops", _ACLGRAPH + "remove_cat_ops"),
    FlatOption("inplace_pass", _ACLGRAPH + "disable_reinplace_inplaceable_ops_pass", inverted=True),
    FlatOption("input_inplace_pass", _ACLGRAPH + "disable_reinplace_input_mutated_ops_pass", inverted=True),
    FlatOption("post_grad_custom_pre_pass", "post_grad_custom_pre_pass"),
    FlatOption("post_grad_custom_post_pass", "post_grad_custom_post_pass"),
    FlatOption("dump_tensor_data", "dump_config.enable_dump"),
    FlatOption("data_dump_stage", "dump_config.data_dump_stage"),
    FlatOption("data_dump_dir", "dump_config.dump_path"),
    FlatOption("deadlock_check", "debug.deadlock_check"),
    FlatOption("capture_error_mode", _ACLGRAPH + "capture_error_mode"),
    FlatOption("force_recapture", _ACLGRAPH + "force_recapture"),
    FlatOption("mode", "mode"),
    FlatOption(
        "unsafe_skip_npugraph_capture_validation", _ACLGRAPH + "unsafe_skip_npugraph_capture_validation"
    ),
    FlatOption("record_statistics_debug_info", _ACLGRAPH + "record_statistics_debug_info"),
)


def _spellings() -> dict[str, FlatOption]:
    table = {path: FlatOption(path, path) for path in OPTIONS}
    table.update(
        {path.removeprefix("air."): FlatOption(path, path) for path in OPTIONS if path.startswith("air.")}
    )
    table.update({row.name: row for row in _NPUGRAPH_EX})
    return table


FLAT_OPTIONS: Final[tuple[FlatOption, ...]] = _NPUGRAPH_EX
"""The names of npugraph_ex."""

_SPELLINGS: Final = _spellings()


def _group_paths(tree: Group) -> Iterator[str]:
    for name in tree._GROUPS:
        inner = getattr(tree, name)
        yield inner._PATH
        yield from _group_paths(inner)


_GROUPS: Final = frozenset(_group_paths(Tree()))


def _pairs(options: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every name and value; a mapping under the path of a group is spread out."""
    for key, value in options.items():
        if not isinstance(key, str):
            raise errors.WrongType("options", key, "names of options, which are strings")
        name = prefix + key
        if name in _GROUPS or f"air.{name}" in _GROUPS:
            if not isinstance(value, Mapping):
                raise errors.NotAGroup(name, value, _members(name))
            yield from _pairs(value, name + ".")
        else:
            yield name, value


def _members(group: str) -> list[str]:
    return [path for path in OPTIONS if path.startswith((f"{group}.", f"air.{group}."))]


def spelling(name: str) -> FlatOption:
    """What a flat name stands for, or the error with the nearest one."""
    row = _SPELLINGS.get(name)
    if row is None and (name in _GROUPS or f"air.{name}" in _GROUPS):
        raise errors.UnknownOption(name, nearest=None, known=_members(name), where="in options", group=True)
    if row is None:
        close = nearest(name, {**BY_NAME, **{each: each for each in _SPELLINGS}}) or nearest_path(name)
        raise errors.UnknownOption(name, nearest=close, known=(), where="in options")
    return row


def read_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The checked values by path. Raises for unknown names, wrong values, and names that contradict."""
    if not isinstance(options, Mapping):
        raise errors.WrongType("options", options, "a dict of option names and values")
    values: dict[str, Any] = {}
    named: dict[str, str] = {}
    for name, given in _pairs(options):
        row = spelling(name)
        value = OPTIONS[row.path].kind.take(row.path, given, where=f"options[{name!r}]")
        value = not value if row.inverted else value
        if row.path in values and values[row.path] != value:
            raise errors.ConflictingOptions(row.path, named[row.path], name)
        values[row.path], named[row.path] = value, name
    return values
