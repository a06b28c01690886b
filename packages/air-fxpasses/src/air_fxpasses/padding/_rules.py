"""What each ATen operator does to padding: one row per operator, and a few rules for many rows.

A rule gives the labels of every result, or raises `Unproven` with the reason.  Operators that torch tags as pointwise
need no row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import sympy  # type: ignore[import-untyped]  # sympy ships no annotations
import torch
from torch import Tensor

from air_fxpasses.padding import _ranks, _shapes, _writes
from air_fxpasses.padding._call import Call
from air_fxpasses.padding._labels import Label, Labels, PaddedSize, Unproven, joined, without

Rule = Callable[[Call], tuple[Labels, ...]]


def pointwise(call: Call) -> tuple[Labels, ...]:
    """Each element of the result is made of the elements at the same place."""
    rank = max(output.dim() for output in call.outputs())
    return (joined(list(call.tensors()), rank),) * len(call.outputs())


def same(call: Call) -> tuple[Labels, ...]:
    """The result lies like the first argument."""
    return (call.labels(),) * len(call.outputs())


def made(call: Call) -> tuple[Labels, ...]:
    """A tensor made from sizes: its elements depend on their own place at most."""
    return tuple(call.padded.at_the_end(output) for output in call.outputs())


def counted(call: Call) -> tuple[Labels, ...]:
    """`arange`: what comes first does not depend on how many come after it."""
    if any(call.padded.is_in(call.number(bound)) for bound in ("start", "step")):
        raise Unproven("numbers are counted from the padded size")
    return made(call)


def reduces(dim: str = "dim") -> Rule:
    """Dimensions are reduced: never the padded one."""

    def rule(call: Call) -> tuple[Labels, ...]:
        labels = call.labels()
        gone = call.dims(dim, len(labels))
        call.require_none([labels[d] for d in gone], "it reduces over the padded dimension")
        kept = tuple(label for d, label in enumerate(labels) if d not in gone or call["keepdim"])
        return (kept,) * len(call.outputs())

    return rule


def along(dim: str = "dim") -> Rule:
    """Elements along one dimension depend on one another: never along the padded one."""

    def rule(call: Call) -> tuple[Labels, ...]:
        labels = call.labels()
        mixed = [labels[d] for d in call.dims(dim, len(labels))]
        call.require_none(mixed, "elements along the padded dimension depend on one another")
        return (labels,) * len(call.outputs())

    return rule


def cumulates(call: Call) -> tuple[Labels, ...]:
    """An element depends on those in front of it: padding must come last."""
    labels = call.labels()
    (dim,) = call.dims("dim", len(labels))
    label = labels[dim] if labels else None
    if label is not None and not label.at_the_end:
        raise Unproven("padding lies in front of elements that depend on it")
    return (labels,) * len(call.outputs())


def rows(*first: str, mixed: int | Callable[[Call], int]) -> Rule:
    """A layer over rows: the last `mixed` dimensions of the input depend on one another, parameters have no padding."""

    def rule(call: Call) -> tuple[Labels, ...]:
        name = next(name for name in first if name in call.arguments)
        labels = call.labels(name)
        count = mixed if isinstance(mixed, int) else mixed(call)
        call.require_none(labels[len(labels) - count :], "the layer computes across the padded dimension")
        for other in call.arguments:
            if other != name and any(not without(found) for _, found in call.tensors(other)):
                raise Unproven(f"its {other} has padding")
        return tuple(_leading(labels, output, call.padded) for output in call.outputs())

    return rule


def _leading(labels: Labels, output: Tensor, padded: PaddedSize) -> Labels:
    """The labels of the dimensions that a result of a layer shares with its input."""
    kept = (*labels, *[None] * output.dim())
    return tuple(
        None if padded.multiple(size) is None else label
        for label, size in zip(kept, output.shape, strict=False)
    )


def contracts(spec: str, **arguments: str) -> Rule:
    """A contraction, as `einsum` writes it; `arguments` are operands that are only added, or not read as numbers.

    A letter that no result has is contracted, and must have no padding.
    """
    given, _, results = spec.partition("->")
    operands = given.split(",")

    def rule(call: Call) -> tuple[Labels, ...]:
        found: dict[str, Label | None] = {}
        names = [a.name for a in call.schema.arguments if a.name not in arguments]
        for letters, name in zip(operands, names, strict=False):
            _agree(found, letters, call.labels(name))
        for name, letters in arguments.items():
            for sizes, labels in call.tensors(name):
                shown = [
                    (letter, label)
                    for letter, size, label in zip(
                        letters[len(letters) - len(sizes) :], sizes, labels, strict=True
                    )
                    if size != 1
                ]
                _agree(found, "".join(letter for letter, _ in shown), tuple(label for _, label in shown))
        kept = results.split(",")
        _contract(found, set("".join(operands)) - set(results), call)
        return tuple(tuple(found.get(letter) for letter in letters) for letters in kept)

    return rule


def matmul(call: Call) -> tuple[Labels, ...]:
    """`torch.matmul`, which some devices keep: matrices or vectors, batches broadcast."""
    (left, a), (right, b) = call.one("self"), call.one("other")
    call.require_none([a[-1], b[-2] if len(b) > 1 else b[-1]], "it sums over the padded dimension")
    batch = max(len(a), len(b), 2) - 2
    batches = joined([(left[:-2], a[:-2]), (right[:-2], b[:-2])], batch)
    rows_and_columns = (a[-2:-1] if len(a) > 1 else ()) + (b[-1:] if len(b) > 1 else ())
    return ((*batches, *rows_and_columns),)


def linear(call: Call) -> tuple[Labels, ...]:
    """`linear`, which some devices keep."""
    labels, weight = call.labels("input"), call.labels("weight")
    call.require_none([labels[-1], weight[-1]], "it sums over the padded dimension")
    if call["bias"] is not None and call.labels("bias") != weight[:-1]:
        raise Unproven("its operands are padded in different places")
    return ((*labels[:-1], *weight[:-1]),)


def _agree(found: dict[str, Label | None], letters: str, labels: Labels) -> None:
    for letter, label in zip(letters, labels, strict=True):
        if found.setdefault(letter, label) != label:
            raise Unproven("its operands are padded in different places")


def _contract(found: Mapping[str, Label | None], letters: set[str], call: Call) -> None:
    for letter in letters:
        label = found.get(letter)
        causal = letter == "k" and bool(call["is_causal"]) and label == found.get("q")
        if label is not None and not (causal and label.at_the_end):
            raise Unproven("it sums over the padded dimension")


def _picks(call: Call, name: str, dims: list[int], picked: Labels) -> None:
    """A row may only be picked for padding out of as many rows as the caller's own sizes always give."""
    sizes, _ = call.one(name)
    unknown = [sizes[dim] for dim in dims if sizes[dim].free_symbols]
    if unknown and not without(picked):
        raise Unproven(
            f"elements are picked by number out of a dimension of size {unknown[0]}, which is not padded as well"
        )


def rows_by_index(call: Call) -> tuple[Labels, ...]:
    """`embedding`: rows of a table without padding."""
    table, indices = call.labels("weight"), call.labels("indices")
    call.require_none(table, "its table has padding")
    _picks(call, "weight", [0], indices)
    return (indices + table[1:],)


def index_select(call: Call) -> tuple[Labels, ...]:
    labels = list(call.labels())
    (dim,) = call.dims("dim", len(labels))
    call.require_none([labels[dim]], "elements are picked by number out of the padded dimension")
    picked = call.labels("index")
    _picks(call, "self", [dim], picked)
    labels[dim] = picked[0] if picked else None
    return (tuple(labels),)


def gather(call: Call) -> tuple[Labels, ...]:
    labels, index = call.labels(), call.labels("index")
    if not labels or not index:
        return (index,)
    (dim,) = call.dims("dim", len(labels))
    call.require_none([labels[dim]], "elements are picked by number out of the padded dimension")
    if any(d != dim and labels[d] != index[d] for d in range(len(labels))):
        raise Unproven("its operands are padded in different places")
    _picks(call, "self", [dim], index)
    return (index,)


def index(call: Call) -> tuple[Labels, ...]:
    """`x[i, :, j]`: indexed dimensions become those of the indices, in front where they do not lie together.

    Of a padded dimension each element must pick its own row: `x[arange(s), j]`.
    """
    labels = call.labels()
    given = [*call["indices"], *[None] * (len(labels) - len(call["indices"]))]
    indexed = [d for d, one in enumerate(given) if one is not None]
    if any(call.value(given[d]).dtype in (torch.bool, torch.uint8) for d in indexed):
        raise Unproven(DATA)
    for d in indexed:
        if labels[d] is not None and not (labels[d] == ROWS and given[d] in call.positions):
            raise Unproven("elements are picked by number out of the padded dimension")
    operands = list(call.tensors("indices"))
    picked = joined(operands, max(len(sizes) for sizes, _ in operands))
    _picks(call, "self", [d for d in indexed if labels[d] is None], picked)
    return (_writes.beside(indexed, picked, [label for d, label in enumerate(labels) if d not in indexed]),)


def holds_positions(call: Call, labels: Labels) -> bool:
    """Whether each element of the result is its own index in the padded dimension."""
    if [label for label in labels if label is not None] != [ROWS]:
        return False
    name = call.schema.name.partition("::")[2]
    if name == "arange":
        return bool(call.number("start") == 0 and call.number("step", 1) == 1)
    return name in KEEPS_ELEMENTS and call["self"] in call.positions


def refused(why: str) -> Rule:
    def rule(call: Call) -> tuple[Labels, ...]:
        raise Unproven(why)

    return rule


def _normalized(call: Call) -> int:
    return len(call["normalized_shape"] or ())


def _all_but_one(call: Call) -> int:
    """Everything but the first dimension."""
    return len(call.labels("input")) - 1


DATA: Final = "how many elements its result has depends on values, those of the padding too"
ATTENTION: Final = "bhqd,bhkd,bhkv->bhqv"

REDUCTIONS: Final = (
    "all", "amax", "amin", "any", "argmax", "argmin", "aminmax", "count_nonzero", "kthvalue", "linalg_vector_norm",
    "logsumexp", "max", "mean", "median", "min", "mode", "nansum", "norm", "prod", "std", "std_mean", "sum", "var",
    "var_mean",
)  # fmt: skip
ALONG: Final = (
    "_log_softmax", "_safe_softmax", "_softmax", "argsort", "glu", "log_softmax", "softmax", "sort", "topk",
)  # fmt: skip
SAME: Final = ("_conj", "_to_copy", "alias", "clone", "contiguous", "detach", "fill", "lift_fresh")
MADE_LIKE: Final = ("empty_like", "full_like", "ones_like", "zeros_like")
MADE: Final = (
    "empty", "empty_strided", "full", "new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros", "ones",
    "scalar_tensor", "zeros",
)  # fmt: skip
POINTWISE: Final = (
    "_prelu_kernel", "complex", "copy", "floor_divide", "hardswish", "lerp", "masked_fill", "polar", "rsub", "where",
)  # fmt: skip
WRITING: Final = ("diagonal_scatter", "index_reduce", "masked_scatter", "put")
ADDING: Final = ("index_add", "scatter_add", "scatter_reduce")
DATA_DEPENDENT: Final = (
    "_unique2", "bincount", "histc", "masked_select", "nonzero", "unique_consecutive", "unique_dim",
)  # fmt: skip
VIEWS: Final = ("_reshape", "_unsafe_view", "reshape", "view")
SPLITS: Final = ("split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes")
OF_PICTURES: Final = ("_adaptive_avg_pool2d", "adaptive_max_pool2d", "avg_pool2d", "max_pool2d_with_indices")
OF_VOLUMES: Final = (
    "_adaptive_avg_pool3d", "adaptive_max_pool3d", "avg_pool3d", "max_pool3d_with_indices", "pixel_shuffle",
    "pixel_unshuffle",
)  # fmt: skip

RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(REDUCTIONS, reduces()),
    **dict.fromkeys(ALONG, along()),
    **dict.fromkeys(_writes.CUMULATIVE, cumulates),
    **dict.fromkeys(SAME, same),
    **dict.fromkeys(MADE_LIKE, same),
    **dict.fromkeys(MADE, made),
    **dict.fromkeys(POINTWISE, pointwise),
    **dict.fromkeys(WRITING, refused(_writes.PLACED)),
    **dict.fromkeys(ADDING, refused(_writes.ADDED)),
    **dict.fromkeys(DATA_DEPENDENT, refused(DATA)),
    "arange": counted,
    # shapes
    **dict.fromkeys(VIEWS, _shapes.view),
    **dict.fromkeys(SPLITS, _shapes.split),
    "cat": _shapes.cat,
    "constant_pad_nd": _shapes.pad,
    "expand": _shapes.expand,
    "flip": _shapes.reverse,
    "permute": _shapes.permute,
    "repeat": _shapes.repeat,
    "roll": _shapes.reverse,
    "select": _shapes.select,
    "slice": _shapes.slice_,
    "view_as_complex": _shapes.as_complex,
    "view_as_real": _shapes.as_real,
    "squeeze": _shapes.squeeze,
    "stack": _shapes.stack,
    "t": _shapes.matrix_transpose,
    "transpose": _shapes.transpose,
    "tril": _shapes.triangle,
    "triu": _shapes.triangle,
    "unbind": _shapes.unbind,
    "unsqueeze": _shapes.unsqueeze,
    # products
    "addmm": contracts("mk,kn->mn", self="mn", beta="", alpha=""),
    "addr": contracts("m,n->mn", self="mn", beta="", alpha=""),
    "addmv": contracts("mk,k->m", self="m", beta="", alpha=""),
    "baddbmm": contracts("bmk,bkn->bmn", self="bmn", beta="", alpha=""),
    "bmm": contracts("bmk,bkn->bmn"),
    "dot": contracts("k,k->"),
    "linear": linear,
    "matmul": matmul,
    "mm": contracts("mk,kn->mn"),
    "mv": contracts("mk,k->m"),
    "_scaled_dot_product_flash_attention_for_cpu": contracts(f"{ATTENTION},bhq", attn_mask="bhqk"),
    # layers
    **dict.fromkeys(OF_PICTURES, rows("self", mixed=2)),
    **dict.fromkeys(OF_VOLUMES, rows("self", mixed=3)),
    "_native_batch_norm_legit_no_training": rows("input", mixed=_all_but_one),
    "_fused_rms_norm": rows("input", mixed=_normalized),
    "convolution": rows("input", mixed=_all_but_one),
    "native_group_norm": rows("input", mixed=_all_but_one),
    "native_layer_norm": rows("input", mixed=_normalized),
    "upsample_bilinear2d": rows("self", "input", mixed=2),
    "upsample_nearest2d": rows("self", "input", mixed=2),
    # writing by number
    "_unsafe_index_put": _writes.index_put,
    "index_copy": _writes.index_copy,
    "index_fill": _writes.index_copy,
    "index_put": _writes.index_put,
    "scatter": _writes.scatter,
    "select_scatter": _writes.part,
    "slice_scatter": _writes.part,
    # picking by number
    "_unsafe_index": index,
    "embedding": rows_by_index,
    "gather": gather,
    "index": index,
    "index_select": index_select,
}

ROWS: Final = Label(sympy.Integer(1), sympy.Integer(1))
"""Of a dimension that is the padded size itself."""

KEEPS_ELEMENTS: Final = (
    "_to_copy", "_unsafe_view", "alias", "clone", "expand", "permute", "slice", "squeeze", "transpose", "unsqueeze",
    "view",
)  # fmt: skip

SIZES: Final = frozenset({"size", "shape", "repeats", "N", "HxW"})
"""Arguments that say how large a result is: the padded size may be among them."""

SIZES_OF: Final[Mapping[str, frozenset[str]]] = {
    "arange": frozenset({"start", "end", "step"}),
    "empty_strided": frozenset({"stride"}),
    "new_empty_strided": frozenset({"stride"}),
    "slice": frozenset({"start", "end", "step"}),
    **dict.fromkeys(SPLITS, frozenset({"split_size", "split_sizes"})),
    "select": frozenset({"index"}),
}
"""More of them; the rules of these operators look at them."""


def rule_of(namespace: str, name: str) -> Rule | None:
    """The row of an operator, without its overload; a copying form of a view (`permute_copy`) has that of the view."""
    if namespace == "aten":
        return RULES.get(name) or RULES.get(name.removesuffix("_copy"))
    if namespace == "_c10d_functional":
        return _ranks.RULES.get(name)
    if namespace != "npu":
        return None
    from air_fxpasses.npu_cards import find  # the cards name rules of this package

    card = find(name)
    return card.padding if card else None
