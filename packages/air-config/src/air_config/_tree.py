"""The whole option tree, and the table of all its options by path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal

from air_config import _areas as area
from air_config import _groups as groups
from air_config import errors
from air_config._callable_kinds import function
from air_config._option import Group, Option, group, nearest, option, subgroup

__all__ = ["OPTIONS", "Tree", "option_at"]


class Root(Group):
    """What the root of the tree has beside options: the preset it starts from."""

    __slots__ = ("_preset",)

    _EXTRA: ClassVar[tuple[str, ...]] = ("_preset",)
    _preset: str | None

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_preset", None)
        super().__attrs_post_init__()

    def _by_path(self) -> dict[str, Any]:
        """Every value by dotted path, in order of declaration."""
        return {row.path: value for row, value in self._leaves()}


@group("", area.PASSES)
class Tree(Root):
    """Every option of AIR at the path under which users know it."""

    mode: Literal["max-autotune", "reduce-overhead", "npugraph_ex"] = option(
        "max-autotune",
        "The executor: Ascend IR compiled by the graph engine, or aclgraph, which captures the device work "
        "once and replays it. npugraph_ex is aclgraph with the defaults of the backend of that name.",
        area=area.FRONT,
    )
    post_grad_custom_pre_pass: Callable[..., Any] | None = option(
        None,
        "Called as `fn(gm, example_inputs, config)` before the FX passes; edits the graph in place.",
        function("gm", "example_inputs", "config"),
    )
    post_grad_custom_post_pass: Callable[..., Any] | None = option(
        None, "The same, after the FX passes.", function("gm", "example_inputs", "config")
    )
    debug: groups.Debug = subgroup(groups.Debug)
    dump_config: groups.Dump = subgroup(groups.Dump)
    experimental_config: groups.Experimental = subgroup(groups.Experimental)
    aclgraph_config: groups.AclGraphPool = subgroup(groups.AclGraphPool)
    ge_config: groups.Ge = subgroup(groups.Ge)
    fusion_config: groups.Fusion = subgroup(groups.Fusion)
    inference_config: groups.Inference = subgroup(groups.Inference)
    aoe_config: groups.Aoe = subgroup(groups.Aoe)
    export: groups.Export = subgroup(groups.Export)
    air: groups.Air = subgroup(groups.Air)


OPTIONS: Final[Mapping[str, Option]] = MappingProxyType({row.path: row for row, _ in Tree()._leaves()})
"""Every option of the tree by its dotted path, in order of declaration."""

Group._TREE = tuple(OPTIONS)


def option_at(path: str) -> Option:
    """The option at a dotted path, or the error that names the nearest one."""
    if not isinstance(path, str):
        raise errors.WrongType("the path of an option", path, "a string such as 'air.sync'")
    if path not in OPTIONS:
        members = [each for each in OPTIONS if each.startswith(f"{path}.")]
        close = None if members else nearest_path(path)
        raise errors.UnknownOption(path, nearest=close, known=members, group=bool(members))
    return OPTIONS[path]


BY_NAME: Final[Mapping[str, str]] = MappingProxyType({path.rpartition(".")[2]: path for path in OPTIONS})
"""The path of the option by its last part, for suggestions."""


def nearest_path(path: str) -> str | None:
    """The path most like `path`, or else the one whose last part is most like that of `path`."""
    return nearest(path, {**BY_NAME, **{each: each for each in OPTIONS}}) or nearest(
        path.rpartition(".")[2], BY_NAME
    )


def at(tree: Group, path: str) -> tuple[Group, str]:
    """The group that holds the option at `path`, and the option's name in it."""
    *outer, name = path.split(".")
    for part in outer:
        tree = getattr(tree, part)
    return tree, name


def value_at(tree: Group, path: str) -> Any:
    """The value of the option at `path`."""
    holder, name = at(tree, path)
    return getattr(holder, name)
