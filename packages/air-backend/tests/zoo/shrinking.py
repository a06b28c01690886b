"""Makes a configuration small by the names of its numbers, so that no architecture needs a word of its own.

A width is divided by a factor that is the product of those of heads and of the width of a head: what was equal, or a
multiple, stays so. What no factor suits is left to a later step of the ladder, which divides by less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

VOCABULARY: Final = 128
"""Ids of words; those that a configuration gives a meaning are the last ones."""
LAYERS: Final = 2
EXPERTS: Final = 4
CHOSEN: Final = 2
"""Experts for each word."""
POSITIONS: Final = 128


@dataclass(frozen=True)
class Step:
    """One step of the ladder: what widths are divided by, and whether pictures become small."""

    heads: int
    head_width: int
    pictures: bool = True
    whole: bool = False
    """The last resort: everything as the library has it, which is small for some."""

    @property
    def width(self) -> int:
        return self.heads * self.head_width

    @property
    def told(self) -> str:
        if self.whole:
            return "whole"
        return f"heads/{self.heads} width/{self.width} pictures {'small' if self.pictures else 'whole'}"


_WITH_SMALL_PICTURES: Final = ((4, 8), (2, 8), (1, 8), (8, 1), (1, 4), (1, 1), (1, 2))
_WITH_WHOLE_PICTURES: Final = ((4, 8), (8, 1), (1, 1))
LADDER: Final = (
    *(Step(heads, head_width) for heads, head_width in _WITH_SMALL_PICTURES),
    *(Step(heads, head_width, pictures=False) for heads, head_width in _WITH_WHOLE_PICTURES),
    Step(1, 1, pictures=False, whole=True),
)

_TOKEN: Final = re.compile(
    r"(token|bos|eos|pad|sep|cls|mask|unk)_?(id|ids|index)$|^(image|video|audio)_token$"
)
_VOCABULARY: Final = re.compile(r"vocab_size")
_LAYERS: Final = re.compile(r"(^|_)(n_?)?(num_)?(layers?|depth|blocks|block_repeats|stages_layers)$|layers$")
_DEPTHS: Final = re.compile(r"(^|_)(depths?|num_blocks|num_layers|blocks_per_stage|layers|block_repeats)$")
_EXPERTS: Final = re.compile(r"(num|n|local|routed|moe)_.*experts$|^experts$")
_CHOSEN: Final = re.compile(r"experts_per_tok|top_?k(_experts)?$|moe_topk$|moe_k$")
_GROUPS_OF_EXPERTS: Final = re.compile(r"^(n_group|topk_group|num_expert_groups?)$")
_HEADS: Final = re.compile(r"heads?$|_heads_")
_HEAD_WIDTH: Final = re.compile(
    r"head_(dim|size)s?$|^d_kv$|^dim_head$|kv_channels|rotary_dim$|rope_.*dim|qkv_dim$"
)
_WIDTH: Final = re.compile(
    r"(hidden|intermediate|inner|embed|embedding|proj|projection|output|model|ffn|mlp|feature|bottleneck|conv|lora|classifier"
    r"|pooler|query|context|state|encoder|decoder|codebook|expert|dense|latent)_?(size|dim|dims|sizes|channels|features|rank)"
    r"(_\w+)?$|(^|_)(d_model|n_embd|dim|dims|width|widths|channels|units|d_ff|n_inner|embed_dim|embed_dims|filters|rank)$"
)
_NOT_WIDTH: Final = re.compile(r"^(num|audio|image|input|in|out)_channels$|kernel|stride|num_filters")
_PICTURE: Final = re.compile(r"(image|img|input|crop|pretrain_image)_size$")
_PATCH: Final = re.compile(r"patch_size$")
_POSITIONS: Final = re.compile(
    r"(max_position_embeddings|n_positions|max_(source|target)_positions|n_ctx|max_seq_len)$"
)
_GROUPS: Final = re.compile(r"num_groups$")


def numbers(config: Any) -> dict[str, Any]:
    """What a configuration says, without what it is derived from others for."""
    return {name: value for name, value in vars(config).items() if not name.startswith("_")}


def parts(config: Any) -> Iterator[Any]:
    """A configuration and those inside of it."""
    yield config
    for value in numbers(config).values():
        if is_config(value):
            yield from parts(value)


def is_config(value: Any) -> bool:
    return hasattr(value, "model_type") and hasattr(value, "to_dict") and not isinstance(value, type)


def find(config: Any, *names: str) -> Any:
    """The first value that a configuration, or one inside of it, has under one of the names."""
    for name in names:
        for part in parts(config):
            if (value := numbers(part).get(name)) is not None:
                return value
    return None


def overrides(config: Any, step: Step) -> dict[str, Any]:
    """The arguments that make a configuration of the same class small; those inside of it as dictionaries."""
    if step.whole:
        return {}
    given = numbers(config)
    kept = _kept_layers(given)
    layers = len(kept) or LAYERS
    made: dict[str, Any] = {}
    for name, value in given.items():
        if is_config(value):
            made[name] = {"model_type": value.model_type, **overrides(value, step)}
        elif isinstance(value, Mapping) and "rope" in name:
            made[name] = {key: _sections(key, inner, step) for key, inner in value.items()}
        else:
            if _is_by_layer(value, given):
                value = type(value)(value[at] for at in kept)
            made[name] = smaller(name, value, step, given, layers)
    hidden, heads = made.get("hidden_size"), made.get("num_attention_heads")
    if given.get("head_dim", 0) is None and isinstance(hidden, int) and isinstance(heads, int):
        made["head_dim"] = hidden // heads  # which some models take from the configuration alone
    usual = _by_default(config)
    return {name: value for name, value in made.items() if is_config(given[name]) or value != usual.get(name)}


def _by_default(config: Any) -> dict[str, Any]:
    """What a configuration of the class says where nothing is said to it: only that need not be said."""
    try:
        return numbers(type(config)())
    except Exception:  # some cannot be made of nothing
        return {}


def _is_by_layer(value: Any, given: Mapping[str, Any]) -> bool:
    """Whether a list has an element for each of the layers."""
    deep = {count for name, count in given.items() if _LAYERS.search(name) and _is_count(count) and count > 4}
    return isinstance(value, (list, tuple)) and len(value) in deep


def _kept_layers(given: Mapping[str, Any]) -> list[int]:
    """The first layers that have each kind of layer that a model mixes, and at least so many as a small model has."""
    lists = [value for value in given.values() if _is_by_layer(value, given)]
    if not lists:
        return []
    kinds = [value for value in lists if isinstance(value[0], str)]
    seen: set[tuple[int, str]] = set()
    kept: list[int] = []
    for at in range(min(map(len, lists))):
        fresh = {(number, value[at]) for number, value in enumerate(kinds)} - seen
        if fresh:
            kept.append(at)
            seen |= fresh
    rest = [at for at in range(min(map(len, lists))) if at not in kept]
    return sorted(kept + rest[: max(0, LAYERS - len(kept))])


def _sections(name: str, value: Any, step: Step) -> Any:
    """Parts of a head that turn by different positions shrink with it."""
    if isinstance(value, Mapping):
        return {key: _sections(key, inner, step) for key, inner in value.items()}
    if "section" in name and isinstance(value, (list, tuple)):
        if all(part % step.head_width == 0 for part in value):
            return [part // step.head_width for part in value]
        total = sum(value) // step.head_width
        rest = [part * total // sum(value) for part in value[1:]]
        return [total - sum(rest), *rest]
    return value


def smaller(name: str, value: Any, step: Step, given: Mapping[str, Any], layers: int = LAYERS) -> Any:
    """The value for a small model; lists element by element."""
    if (
        isinstance(value, (list, tuple))
        and value
        and all(_is_count(each) or isinstance(each, (list, tuple)) for each in value)
    ):
        if re.search(r"ind(ex|ic)es$|indexes$", name):
            return [at for at in range(min(layers, len(value)))]
        if _DEPTHS.search(name):
            return type(value)(min(each, 1) if _is_count(each) else each for each in value)
        return type(value)(
            smaller(name.removesuffix("s") if name.endswith("sizes") else name, each, step, given, layers)
            for each in value
        )
    if value is None:
        return EXPERTS if _EXPERTS.search(name) else CHOSEN if _CHOSEN.search(name) else None
    if not _is_count(value) or value <= 0:
        return value
    for pattern, rule in _RULES:
        if pattern.search(name):
            return rule(value, step, given, layers)
    return value


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _divided(value: int, by: int) -> int:
    """A quotient without a rest, or a multiple of eight."""
    if value < 16 or by == 1:
        return value
    return max(value // by, 4) if value % by == 0 else max(8, -(-value // by // 8) * 8)


def _picture(value: int, step: Step, given: Mapping[str, Any], layers: int) -> int:
    if not step.pictures:
        return value
    patch = given.get("patch_size")
    side = patch * 4 if isinstance(patch, int) and patch > 4 else 64
    return min(value, side)


_RULES: Final = (
    (_TOKEN, lambda v, step, given, layers: v if v < VOCABULARY else VOCABULARY - 1 - v % 24),
    (_VOCABULARY, lambda v, step, given, layers: min(v, VOCABULARY)),
    (_GROUPS_OF_EXPERTS, lambda v, step, given, layers: 1),
    (_GROUPS, lambda v, step, given, layers: min(v, 2)),
    (_CHOSEN, lambda v, step, given, layers: min(v, CHOSEN)),
    (_EXPERTS, lambda v, step, given, layers: min(v, EXPERTS)),
    (re.compile(r"first_k_dense|num_dense_layers"), lambda v, step, given, layers: min(v, 1)),
    (_HEADS, lambda v, step, given, layers: max(v // step.heads, 1) if v % step.heads == 0 or v < step.heads else v),
    (_HEAD_WIDTH, lambda v, step, given, layers: v // step.head_width if v % step.head_width == 0 else v),
    (re.compile(r"shared_layers$"), lambda v, step, given, layers: 0),
    (_LAYERS, lambda v, step, given, layers: min(v, layers)),
    (_POSITIONS, lambda v, step, given, layers: min(v, POSITIONS) if step.pictures else v),
    (_PICTURE, _picture),
    (_NOT_WIDTH, lambda v, step, given, layers: v),
    (_WIDTH, lambda v, step, given, layers: _divided(v, step.width)),
)  # fmt: skip
