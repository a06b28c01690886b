"""What an operator does to the memory of its arguments: the only table of effects.

    add_(Tensor(a!) self, Tensor other) -> Tensor(a!)     reads and writes self, reads other, returns self's memory
    view(Tensor(a) self, SymInt[] size) -> Tensor(a)      touches nothing, returns self's memory
    copy_(Tensor(a!) self, Tensor src) -> Tensor(a!)      overwrites self without reading it

Nearly all of it is read off schemas. The rest are the short tables below: what a schema does not say, and what can be
registered for operators of your own. Nothing is inferred from names. A callable without a schema may do anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

import torch
from torch._ops import OpOverload

from air_graph._collectives import waits_for_collective
from air_graph._operators import find_operator, name_of, qualified
from air_graph.errors import BadRegistration

aten = torch.ops.aten
Key = int | str
"""Where a call passes an argument: its position, or its name."""

_TABLE: Final = "effects"

#: Questions about sizes and layout: the host answers them, no element is looked at.
_METADATA_ONLY: Final = frozenset(
    {
        aten.sym_size,
        aten.sym_stride,
        aten.sym_numel,
        aten.sym_storage_offset,
        aten.sym_is_contiguous,
        aten._assert_tensor_metadata,
    }
)

#: In-place operators that overwrite their first argument without reading it.
_OVERWRITES_FIRST: Final = frozenset(
    {
        aten.copy_.default,
        aten.fill_.Scalar,
        aten.fill_.Tensor,
        aten.zero_.default,
        aten.uniform_.default,
        aten.normal_.default,
        aten.bernoulli_.float,
        aten.bernoulli_.Tensor,
        aten.exponential_.default,
        aten.random_.default,
        getattr(aten.random_, "from"),
        aten.random_.to,
        aten.cauchy_.default,
        aten.geometric_.default,
        aten.log_normal_.default,
        aten._foreach_copy_.default,
        aten._foreach_zero_.default,
    }
)

#: Operators that give back their first argument's memory although the schema does not say so.
_HIDDEN_VIEWS: Final = frozenset(
    {
        aten._unsafe_view.default,
        aten.lift_fresh.default,
        aten._reshape_alias.default,
        aten.unsafe_split.Tensor,
        aten.unsafe_split_with_sizes.default,
    }
)

#: Operators that may hand back their first argument itself, or a new tensor; neither schema nor fake kernel says so.
_may_return_argument: set[str] = {
    "npu::npu_format_cast",
    "npu::npu_dtype_cast",
    "npu::_npu_dtype_cast",
    "npu::npu_dtype_cast_backward",
    "npu::_npu_dtype_cast_backward",
    "npu::_npu_format_cast",
}

_STATISTICS: Final = ("running_mean", "running_var")

#: Operator -> the arguments it writes although the schema says it only reads them; empty: it is not known which.
_hidden_writes: dict[str, tuple[str, ...]] = {
    "aten::batch_norm_gather_stats.default": _STATISTICS,
    "aten::batch_norm_gather_stats_with_counts.default": _STATISTICS,
    "aten::batch_norm_update_stats.default": _STATISTICS,
    "atb::_npu_group_topk.default": ("self",),
    "npu::batch_norm_gather_stats_update.default": _STATISTICS,
    "npu::npu_apply_rotary_pos_emb.default": ("query", "key"),
    "npu::npu_dequant_rope_quant_kvcache.default": ("k_cache", "v_cache"),
    "npu::npu_fused_infer_attention_score.out": ("out",),
    "npu::npu_fused_infer_attention_score_v2.out": ("out",),
    "npu::npu_kv_rmsnorm_rope_cache.default": ("k_cache", "ckv_cache"),
    "npu::npu_mla_prolog.default": ("kv_cache", "kr_cache"),
    "npu::npu_mla_prolog_v2.default": ("kv_cache", "kr_cache"),
    "npu::npu_rope_quant_kvcache.default": ("k_cache", "v_cache"),
}

#: Operators whose result is a copy of their first argument with what lies round its elements: same strides, same
#: offset, a storage of the same size.
_KEEPS_GAPS: Final = frozenset(
    f"aten::{name}"
    for name in ("copy", "slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter")
)

_SYMBOLIC_MODULES: Final = ("torch.utils._sympy", "torch.fx.experimental.sym")


@dataclass(frozen=True, slots=True)
class ArgumentEffect:
    """How one argument is used."""

    name: str
    position: int | None
    """`None`: by keyword only."""
    reads: bool
    writes: bool
    aliases: frozenset[str] = frozenset()
    """The alias sets that its memory belongs to; a result of the same set lives in it."""

    def given(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What a call passes for it; None where it is left out."""
        is_positional = self.position is not None and self.position < len(args)
        return args[self.position] if is_positional else kwargs.get(self.name)  # type: ignore[index]  # just asked


@dataclass(frozen=True, slots=True)
class Effects:
    """What an operator does to each argument, and where its results live."""

    arguments: tuple[ArgumentEffect, ...] = ()
    returns: tuple[frozenset[str], ...] = ()
    """The alias sets of each result; empty: new memory."""
    may_copy: bool = False
    """A result that shares memory by the schema may be a new tensor instead (`reshape`, `contiguous`, `to`)."""
    opaque: bool = False
    """Nothing is known: every argument may be written, every result may share its memory."""
    hides: bool = False
    """Something about it is not in the schema, so code that reads only schemas is wrong about it."""

    is_plain: bool = field(init=False, compare=False)
    """Only reads: no argument is written or shared."""
    by_key: dict[Key, ArgumentEffect] = field(init=False, compare=False, repr=False)
    """The effect on the argument passed at a position or by a name."""

    def __post_init__(self) -> None:
        touched = any(a.writes or a.aliases or not a.reads for a in self.arguments)
        object.__setattr__(self, "is_plain", not (self.opaque or touched))
        named: dict[Key, ArgumentEffect] = {a.name: a for a in self.arguments}
        named.update((a.position, a) for a in self.arguments if a.position is not None)
        object.__setattr__(self, "by_key", named)

    @property
    def is_unsure(self) -> bool:
        """What it gives back may share memory with what it was given, and no fake kernel shows it."""
        return self.opaque or (self.hides and self.may_copy)

    @property
    def hides_writes(self) -> bool:
        """It writes something that its schema says it reads, so it is never dead."""
        return self.hides and (self.opaque or bool(self.writes))

    @property
    def writes(self) -> tuple[ArgumentEffect, ...]:
        """The arguments that are written."""
        return tuple(a for a in self.arguments if a.writes)


PLAIN: Final = Effects()
OPAQUE: Final = Effects(opaque=True)


def register_hidden_writes(name: str, arguments: tuple[str, ...] = ()) -> None:
    """Declares that operator `name` (`"ns::op.overload"`) writes arguments that its schema says it reads.

    Without `arguments` it may do anything to what it is given: nothing is assumed about that memory.
    """
    _hidden_writes[qualified(name, _TABLE)] = tuple(arguments)
    effects_of.cache_clear()


def hidden_writes(op: OpOverload | str) -> tuple[str, ...] | None:
    """The arguments that `op` writes and its schema does not mark; `None` for an operator that hides nothing."""
    names = _hidden_writes.get(op if isinstance(op, str) else name_of(op))
    if names is None or isinstance(op, str):
        return names
    known = [a.name for a in op._schema.arguments]
    if unknown := [name for name in names if name not in known]:
        raise BadRegistration(_TABLE, name_of(op), f"{op} has no argument {', '.join(unknown)}")
    return names


def hidden_writers() -> list[OpOverload]:
    """The operators that write what their schemas say they read, of those that are loaded now."""
    return [op for op in map(find_operator, _hidden_writes) if op is not None]


def register_may_return_argument(name: str) -> None:
    """Declares that operator `name` (`"ns::op"`) sometimes returns its first argument itself."""
    _may_return_argument.add(name)
    effects_of.cache_clear()


def keeps_gaps(target: object) -> bool:
    """Whether a result is a copy of the first argument with what lies round its elements, at the same offset."""
    return isinstance(target, OpOverload) and target._schema.name in _KEEPS_GAPS


@cache
def effects_of(target: Any) -> Effects:
    """The effects of an operator overload, or of a Python function on numbers; anything else is opaque.

    For operators that are given graphs (`cond`, `while_loop`) ask `effects_of_node`.
    """
    if not isinstance(target, OpOverload):
        return PLAIN if _is_arithmetic(target) else OPAQUE
    if target.overloadpacket in _METADATA_ONLY:
        arguments = enumerate(target._schema.arguments)
        return Effects(tuple(ArgumentEffect(a.name, _position(i, a), False, False) for i, a in arguments))
    effects = _of_schema(target)
    if target._schema.name in _may_return_argument:
        return replace(_as_hidden_view(effects), may_copy=True)
    if target in _HIDDEN_VIEWS:
        return _as_hidden_view(effects)
    if waits_for_collective(target):
        return _as_hidden_view(effects, reads=True)
    if (hidden := hidden_writes(target)) is not None:
        if not hidden:
            return replace(OPAQUE, hides=True)
        written = tuple(replace(a, writes=True) if a.name in hidden else a for a in effects.arguments)
        return replace(effects, arguments=written, hides=True)
    return effects


def written_values(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """What a call of `op` with these arguments writes: the values of the arguments it writes, as they are given."""
    effects = effects_of(op)
    if effects.opaque:
        return [*args, *kwargs.values()]
    given = (argument.given(args, kwargs) for argument in effects.writes)
    return [value for value in given if value is not None]


def _of_schema(op: OpOverload) -> Effects:
    schema = op._schema
    copies = _may_copy(op)
    only_views = bool(op.is_view) and not copies
    arguments = tuple(_argument(op, i, a, only_views) for i, a in enumerate(schema.arguments))
    own = frozenset[str]().union(*(a.aliases for a in arguments))
    return Effects(arguments, tuple(_sets(result.alias_info, own) for result in schema.returns), copies)


def _argument(op: OpOverload, index: int, argument: Any, only_views: bool) -> ArgumentEffect:
    aliases = _sets(argument.alias_info)
    position = _position(index, argument)
    if argument.alias_info is not None and argument.alias_info.is_write:
        overwritten = argument.is_out or (index == 0 and op in _OVERWRITES_FIRST)
        return ArgumentEffect(argument.name, position, not overwritten, True, aliases)
    return ArgumentEffect(argument.name, position, not (only_views and aliases), False, aliases)


def _position(index: int, argument: Any) -> int | None:
    return None if argument.kwarg_only else index


def _as_hidden_view(effects: Effects, *, reads: bool = False) -> Effects:
    """The first argument's memory is the result's; what looks at its elements besides `reads` it."""
    own = frozenset({"a"})
    first, *rest = effects.arguments
    return replace(
        effects, arguments=(replace(first, reads=reads, aliases=own), *rest), returns=(own,), hides=True
    )


def _sets(alias_info: Any, hidden: frozenset[str] = frozenset()) -> frozenset[str]:
    """The alias sets of an argument or a result.

    `Tensor(a)[]` carries its set inside the list, where Python cannot look: then it may be any that is `hidden`.
    """
    if alias_info is None:
        return frozenset()
    return frozenset(alias_info.before_set) | frozenset(alias_info.after_set) or hidden


def _may_copy(op: OpOverload) -> bool:
    """`reshape`, `contiguous`, `to` and others: a view of the input or a new tensor, as the input's layout has it."""
    implicit = torch._C.DispatchKey.CompositeImplicitAutograd
    return bool(op.is_view) and op.has_kernel_for_dispatch_key(implicit)


def _is_arithmetic(target: Any) -> bool:
    """Python operators on sizes, and the symbolic functions torch puts into graphs."""
    module = getattr(target, "__module__", None) or ""
    if module == "torch":
        return str(getattr(target, "__name__", "")).startswith("sym_")
    return module in ("_operator", "math") or module.startswith(_SYMBOLIC_MODULES)
