"""Every converter of one to three tensors, in every type eager torch takes: its numbers, or a refusal; never others."""

from __future__ import annotations

import itertools
import logging
import math
import operator
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from air_geir import compile_graph
from air_geir.converters import Converter, Sample, all_converters, resolve
from air_geir.converters._sample import SampleTensor
from air_geir.errors import UnsupportedGraphError

HALVES = (torch.float16, torch.bfloat16)
FLOATS = (*HALVES, torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
DTYPES = (*FLOATS, *COMPLEX, *WHOLE, torch.bool)
MIXED = (torch.bfloat16, torch.float32, torch.complex64, torch.uint8, torch.int8, torch.int64, torch.bool)
NUMBERS: tuple[Any, ...] = (
    True, 2, -3, 0, -1, 300, 2.5, -0.5, 0.3, float("inf"), float("nan"), 1 + 2j,
)  # fmt: skip

NOT_HERE = {"collectives", "random", "control_flow", "printing", "inplace", "attention"}
"""Families with tests of their own."""
TAME = (
    "var", "std", "norm", "mm", "mv", "dot", "pool", "softmax", "fft", "pdist", "cdist", "logcumsumexp", "logsumexp",
    "embedding", "grid_sampler", "upsample", "convolution", "mean", "sum", "prod", "_backward", "loss", "glu",
    "addr", "erfinv", "histc", "solve_triangular", "grouped_mm", "im2col", "index_reduce", "scatter",
)  # fmt: skip
"""Operators that add up or iterate: what they give for the largest numbers and for infinities depends on the order."""
PARTS_ALONE = ("abs", "angle", "isnan", "isinf", "isfinite", "nan_to_num", "real", "conj", ".eq", ".ne")
"""Operators that are strict with complex infinities; a product of them depends on how it is written."""
ZEROS_ALIKE = ("max", "min", "clamp", "prod", "sort", "topk", "hardtanh", "cum", *TAME)
"""Operators for which either zero will do."""
DIVIDES = ("div", "remainder", "fmod")
"""Torch itself ends the process for the smallest whole number divided by -1."""
RELATED = {
    "aten.log_sigmoid_backward.default": "one argument is made of another",
    "aten._softmax_backward_data.default": "an argument says the type of another",
    "aten._log_softmax_backward_data.default": "an argument says the type of another",
}
HALVES_ROUNDED = {
    "aten.gelu_backward.default": "eager rounds a result of float32 to bfloat16 where one operand has that type",
    "aten.histc.default": "eager rounds the edges between bins, and what lies on one is counted on the other side",
}
"""Operators for which half precision is nearer to the truth than eager."""


def chosen() -> list[Converter]:
    """The converters whose arguments can be made from their samples."""
    found = []
    for converter in all_converters():
        op = resolve(converter.target)
        if op is None or op._schema.is_mutable or converter.family in NOT_HERE or converter.target in RELATED:
            continue
        if any(1 <= len(tensors(s)) <= 3 for s in converter.samples):
            found.append(converter)
    return found


def is_tensor(leaf: object) -> bool:
    return isinstance(leaf, (SampleTensor, torch.Tensor))


def tensors(sample: Sample) -> list[Any]:
    leaves = pytree.tree_leaves((sample.args, sample.kwargs), is_leaf=is_tensor)
    return [leaf for leaf in leaves if is_tensor(leaf)]


def values(dtype: torch.dtype, target: str) -> list[Any]:
    """The numbers of a type at which meanings differ."""
    tame = named(target, TAME)
    if dtype == torch.bool:
        return [True, False]
    if dtype.is_complex:
        real = [0.0, -0.0, 1.0, -2.5, 0.5, *([] if tame else [math.inf, -math.inf, math.nan])]
        return [complex(a, b) for a in real for b in real]
    if dtype.is_floating_point:
        limits = torch.finfo(dtype)
        wild = [] if tame else [math.inf, -math.inf, math.nan, limits.max, limits.min, limits.tiny]
        return [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            1.5,
            2.5,
            -2.5,
            3.0,
            -7.0,
            0.1,
            -0.3,
            1e-3,
            1 / 3,
            -1.7,
            0.9,
            100.0,
            *wild,
        ]
    whole = torch.iinfo(dtype)
    large = [] if tame else [whole.max, whole.max - 1, whole.min + 1, min(whole.max, 2**53 + 1)]
    large += [] if tame or named(target, DIVIDES) else [whole.min]
    return [0, 1, 2, 3, 5, 7, 8, *([-1, -2, -3, -7, -8] if whole.min < 0 else []), *large]


def filled(sample: Sample, dtypes: tuple[torch.dtype | None, ...], seed: int, target: str) -> tuple[Any, Any]:
    """The call with tensors of these types; None keeps a tensor as the sample has it."""
    wanted = iter(dtypes)
    generator = torch.Generator().manual_seed(seed)

    def fill(leaf: Any) -> Any:
        if not is_tensor(leaf):
            return leaf
        dtype = next(wanted)
        if dtype is None:
            return leaf.make(generator) if isinstance(leaf, SampleTensor) else leaf
        pool = values(dtype, target)
        places = torch.randint(0, len(pool), (math.prod(leaf.shape),), generator=generator).tolist()
        return torch.tensor([pool[p] for p in places], dtype=dtype).reshape(tuple(leaf.shape))

    args, kwargs = pytree.tree_map(fill, (sample.args, sample.kwargs), is_leaf=is_tensor)
    return args, kwargs


def calls(converter: Converter, mixed: bool) -> Iterator[tuple[Sample, tuple[torch.dtype | None, ...]]]:
    """Every sample in every type; with each number in the place of a number; and two types in one call."""
    op = resolve(converter.target)
    assert op is not None
    for sample in converter.samples:
        count = len(tensors(sample))
        if not 1 <= count <= 3:
            continue
        for dtype in DTYPES:
            yield sample, (dtype,) * count
            if count > 1:
                yield sample, (dtype, *[None] * (count - 1))
        if mixed and count == 2:
            for pair in itertools.permutations(MIXED, 2):
                yield sample, pair
        for at, argument in enumerate(op._schema.arguments):
            if str(argument.type) in ("number", "Optional[number]"):
                for number, dtype in itertools.product(numbers_for(converter.target), DTYPES):
                    yield with_number(sample, at, argument.name, number), (dtype,) * count


def numbers_for(target: str) -> list[Any]:
    """The numbers to call it with."""
    return [n for n in NUMBERS if not named(target, TAME) or isinstance(n, complex) or math.isfinite(n)]


def with_number(sample: Sample, at: int, name: str, number: Any) -> Sample:
    if at < len(sample.args):
        return Sample(*[number if i == at else a for i, a in enumerate(sample.args)], **sample.kwargs)
    return Sample(*sample.args, **{**sample.kwargs, name: number})


def graph_of(op: Any, args: Any, kwargs: Any) -> tuple[fx.GraphModule, list[torch.Tensor], list[Any]]:
    """A graph of this one call, its tensors, and what torch says about the results."""
    graph, mode = fx.Graph(), FakeTensorMode()
    given: list[torch.Tensor] = []
    leaves, spec = pytree.tree_flatten((args, kwargs))
    nodes: list[Any] = []
    fakes: list[Any] = []
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            nodes.append(leaf)
            fakes.append(leaf)
            continue
        node = graph.placeholder(f"x{len(given)}")
        node.meta["val"] = mode.from_tensor(leaf)
        given.append(leaf)
        nodes.append(node)
        fakes.append(node.meta["val"])
    node_args, node_kwargs = pytree.tree_unflatten(nodes, spec)
    fake_args, fake_kwargs = pytree.tree_unflatten(fakes, spec)
    called = graph.call_function(op, tuple(node_args), node_kwargs)
    with mode, torch.no_grad():
        called.meta["val"] = op(*fake_args, **fake_kwargs)
    outputs = [called]
    if isinstance(called.meta["val"], (tuple, list)):
        outputs = []
        for at, one in enumerate(called.meta["val"]):
            outputs.append(graph.call_function(operator.getitem, (called, at)))
            outputs[-1].meta["val"] = one
    graph.output(outputs)
    return fx.GraphModule(torch.nn.Module(), graph), given, [o.meta["val"] for o in outputs]


def wrong(target: str, got: torch.Tensor, want: torch.Tensor) -> str | None:
    """How a result differs from eager's. Half precision is compared to the bit where nothing is added up."""
    got, want = got.resolve_conj(), want.resolve_conj()
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype} {tuple(got.shape)} for {want.dtype} {tuple(want.shape)}"
    tame = named(target, TAME)
    if not (want.is_floating_point() or want.is_complex()):
        same = got == want
    elif want.dtype in (torch.float16, torch.bfloat16) and not tame:
        same = (got == want) | (got.isnan() & want.isnan())
    else:
        eps = torch.finfo(want.dtype).eps
        rtol, atol = (64 * eps, 16 * eps) if tame else (16 * eps, 0.0)
        same = torch.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
    if want.is_complex() and not named(target, PARTS_ALONE):
        same |= ~got.isfinite() & ~want.isfinite()
    if want.is_floating_point() and not named(target, ZEROS_ALIKE):
        same &= (torch.signbit(got) == torch.signbit(want)) | want.isnan()
    if same.all():
        return None
    return f"{got[~same].flatten()[:4].tolist()} for {want[~same].flatten()[:4].tolist()}"


def named(target: str, parts: tuple[str, ...]) -> bool:
    return any(part in target for part in parts)


def verdict(target: str, op: Any, args: Any, kwargs: Any) -> str | None:
    """None when the compiled call is eager's, is refused by name, or eager and torch's own description disagree."""
    try:
        with torch.no_grad():
            want = pytree.tree_leaves(op(*args, **kwargs))
        gm, given, described = graph_of(op, args, kwargs)
    except Exception:  # eager refuses
        return None
    pairs = [(d, w) for d, w in zip(described, want, strict=True) if isinstance(w, torch.Tensor)]
    if any((d.dtype, d.shape) != (w.dtype, w.shape) for d, w in pairs):
        return None
    try:
        found = compile_graph(gm, given, engine="reference", name="call")(*given)
    except UnsupportedGraphError:
        return None
    except Exception as raw:
        return f"{type(raw).__name__}: {raw}"
    pairs = [(g, w) for g, w in zip(found, want, strict=True) if isinstance(w, torch.Tensor)]
    return next(filter(None, (wrong(target, g, w) for g, w in pairs)), None)


def check(converter: Converter, *, mixed: bool, seeds: int, every: int = 1) -> None:
    op = resolve(converter.target)
    found: dict[str, str] = {}
    for at, (sample, dtypes) in enumerate(calls(converter, mixed)):
        if at % every or (converter.target in HALVES_ROUNDED and not {*dtypes}.isdisjoint(HALVES)):
            continue
        for seed in range(seeds):
            args, kwargs = filled(sample, dtypes, seed + at, converter.target)
            told = verdict(converter.target, op, args, kwargs)
            if told is not None:
                numbers = [a for a in pytree.tree_leaves((args, kwargs)) if not isinstance(a, torch.Tensor)]
                found.setdefault(f"{[str(d)[6:] for d in dtypes]} {numbers}", told)
                break
    assert not found, "\n".join(f"{call}: {told}" for call, told in found.items())


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Torch logs a trace of every call that it refuses."""
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


ALL = chosen()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("converter", ALL, ids=lambda c: c.target)
def test_N03_a_converter_gives_eagers_numbers_in_every_type_or_refuses(converter: Converter) -> None:
    """Every call of few; a share of those of many, a different one for each operator."""
    many = sum(1 for _ in calls(converter, False))
    check(converter, mixed=False, seeds=1, every=1 + many // 30)


@pytest.mark.slow
@pytest.mark.parametrize("converter", ALL, ids=lambda c: c.target)
def test_N03_a_converter_gives_eagers_numbers_for_every_pair_of_types_or_refuses(
    converter: Converter,
) -> None:
    check(converter, mixed=True, seeds=1)
