"""Rows of a table of statements: a template with blanks, and how the blanks are filled from what a program has."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor

from air_graph import storage_of
from air_graph.testing._scope import Holds, Scope, anything, is_float


class NothingFits(Exception):
    """The program has nothing that fits a blank."""


@dataclass(frozen=True)
class Row:
    """One kind of statement.

    `{x}` is a tensor for which `holds`; every other blank is drawn to fit it.
    """

    text: str
    holds: Holds = anything
    inexact: bool = False
    """The result is rounded, and not alike by every way of computing it."""
    exact: bool = False
    """The result jumps where its operand moves a little: operands that were rounded are not taken."""
    results: int = 1
    """How many names it makes; 0 for a write."""
    count: str = ""
    """A blank that says how many names it makes."""
    apart: bool = False
    """What it reads may not lie in the memory that it writes, not even alike."""
    tag: str = ""

    @property
    def name(self) -> str:
        return self.tag or _tag(self.text)

    def draw(self, scope: Scope) -> bool:
        """Draws the blanks and takes the statement; False where that does not work out."""
        writes = self.results == 0
        x = scope.target(self.holds) if writes else scope.tensor(self.holds, self.exact)
        if x is None:
            return False
        blanks = Blanks(scope, x, self.exact)
        try:
            text = self.text.format_map(blanks)
            count = int(blanks[self.count]) if self.count else self.results
        except (NothingFits, IndexError):
            return False
        inexact = self.inexact or _rounds(text, scope)
        if self.apart and any(_share(scope.values[x], scope.values[name]) for name in blanks.read):
            return False
        if writes:
            return scope.do(text, self.name, (x,), blanks.read, inexact)
        if count == 1 and not self.count:
            return scope.assign(text, self.name, inexact)
        return scope.assign_all(count, text, self.name, inexact)


def _tag(text: str) -> str:
    called = [word for word in re.findall(r"([A-Za-z_]\w*)\(", text) if word not in _MAKERS]
    if not called:
        return "setitem" if re.search(r"\] *[-+*]?= ", text) else "getitem"
    if re.search(r"\] *[-+*]?= ", text):
        called.append("setitem")
    return ".".join(called)


_MAKERS: Final = ("tensor", "arange", "size")


def _share(one: Tensor, other: Tensor) -> bool:
    return storage_of(one) == storage_of(other)


_ROUNDING: Final = re.compile(
    r"sum|mean|matmul|@|cumsum|bmm|addmm|conv|linear|index_add|scatter_add|prod|norm"
)


def _rounds(text: str, scope: Scope) -> bool:
    """Sums of half-precision numbers depend on how they are accumulated."""
    if not _ROUNDING.search(text):
        return False
    words = re.findall(r"[A-Za-z_]\w*", text)
    values = (scope.values.get(word) for word in words)
    return any(
        getattr(v, "itemsize", 8) <= 2 and is_float(v) for v in values if v is not None and hasattr(v, "dim")
    )


class Blanks(dict[str, str]):
    """Fills the blanks of one statement, each when it is first asked for."""

    def __init__(self, scope: Scope, x: str, exact: bool) -> None:
        super().__init__(x=x)
        self.scope = scope
        self.exact = exact
        self.read: list[str] = []
        self.value = scope.values[x]

    def __missing__(self, blank: str) -> str:
        text = _BLANKS[blank.rstrip("0123456789")](self)
        if text is None:
            raise NothingFits(blank)
        self[blank] = str(text)
        return str(text)

    def operand(self, same_dtype: bool = False) -> str | None:
        name = self.scope.fits(self["x"], same_dtype)
        if name is None or (self.exact and name in self.scope.inexact):
            return None
        self.read.append(name)
        return name

    def length(self) -> int:
        """The size of the dimension that `{d}` names."""
        d = int(self["d"])
        return int(self.value.shape[d]) if self.value.dim() else 1


def _like(b: Blanks) -> str | None:
    """A tensor of the same sizes."""
    name = b.scope.tensor(lambda t: t.shape == b.value.shape and t.dtype == b.value.dtype, b.exact)
    if name is not None:
        b.read.append(name)
    return name


def _any_tensor(b: Blanks) -> str | None:
    name = b.scope.tensor(exact=b.exact)
    if name is not None:
        b.read.append(name)
    return name


def _index(b: Blanks) -> str | None:
    length = b.length()
    if not length:
        return None
    at = b.scope.below(length)
    return str(at - length if b.scope.coin(0.3) else at)


def _start(b: Blanks) -> str:
    return str(b.scope.below(max(1, b.length() - 1)))


def _stop(b: Blanks) -> str:
    start, length = int(b["a"]), b.length()
    stop = start + 1 + b.scope.below(length - start)
    if stop == length and b.scope.coin():
        return ""
    return str(stop)


def _constant(b: Blanks) -> str:
    if "n" in b.scope.values and b.scope.coin():
        return "n"
    whole = b.scope.one_of(("2", "3", "-1", "1", "0"))
    if not is_float(b.value) or b.scope.coin():
        return whole
    return b.scope.one_of(("0.5", "2.0", "-1.5"))


def _factors(b: Blanks) -> str:
    """Sizes with the same number of elements."""
    numel = b.value.numel()
    sizes: list[int] = []
    if not numel:
        return b.scope.shape(reversed(b.value.shape))
    while numel > 1 and len(sizes) < 3:
        divisors = [n for n in range(1, numel + 1) if numel % n == 0]
        size = b.scope.one_of(divisors)
        sizes.append(size)
        numel //= size
    sizes.append(numel)
    texts = [b.scope.size(s) for s in sizes]
    if b.scope.coin(0.3):
        texts[b.scope.below(len(texts))] = "-1"
    return ", ".join(texts)


def _permutation(b: Blanks) -> str:
    order = list(range(b.value.dim()))
    b.scope.chance.shuffle(order)
    return ", ".join(map(str, order))


def _rows_of(b: Blanks) -> str | None:
    """Positions along `{d}`, none of them twice."""
    length = b.length()
    if not length:
        return None
    if b.scope.coin(0.3):
        return f"torch.arange({b['n']}, device={b['x']}.device).flip(0)"
    places = b.scope.chance.sample(range(length), 1 + b.scope.below(min(3, length)))
    b["many"] = str(len(places))
    return f"torch.tensor({places}, device={b['x']}.device)"


def _mask(b: Blanks) -> str | None:
    name = b.scope.tensor(lambda t: t.shape == b.value.shape and not t.dtype.is_complex, exact=True)
    if name is None:
        return None
    b.read.append(name)
    return name if str(b.scope.values[name].dtype) == "torch.bool" else f"({name} > 0)"


def _window(b: Blanks) -> str | None:
    """Sizes, strides and perhaps an offset inside the storage."""
    room = b.value.untyped_storage().nbytes() // b.value.itemsize
    offset = b.value.storage_offset() if b.scope.coin(0.4) else b.scope.below(max(1, room // 2))
    shapes = ((2, 2), (3,), (2, 3), (4,), (2, 2, 2), (1, 3), (3, 1))
    sizes = b.scope.one_of(shapes)
    strides = [b.scope.one_of((1, 2, 3, 4)) for _ in sizes]
    if offset + sum((s - 1) * t for s, t in zip(sizes, strides, strict=True)) >= room:
        return None
    at = "" if offset == b.value.storage_offset() else f", {offset}"
    return f"{sizes}, {tuple(strides)}{at}"


def _pieces(b: Blanks) -> str:
    length = b.length()
    return str(min(length, 1 + b.scope.below(3)) if length else 1)


def _piece(b: Blanks) -> str:
    """A length of pieces, for `split`; `{parts}` is how many there are."""
    length = b.length()
    size = max(1, b.scope.below(length + 1))
    b["parts"] = str(max(1, -(-length // size)))
    if int(b["parts"]) > 4:
        raise NothingFits("parts")
    return str(size)


def _dtype(b: Blanks) -> str:
    names = ("float32", "float32", "float64", "float16", "bfloat16", "int32", "int64", "bool", "complex64")
    return _name_of_dtype(b, names)


def _real_dtype(b: Blanks) -> str:
    return _name_of_dtype(b, ("float32", "float64", "float16", "bfloat16"))


def _name_of_dtype(b: Blanks, names: Sequence[str]) -> str:
    """One of them; torch_npu makes float32 of what is cast to float64, with no more than a warning."""
    name = b.scope.one_of(names)
    return "torch." + ("float32" if name == "float64" and b.value.device.type == "npu" else name)


def _bits(b: Blanks) -> str:
    sizes = {
        1: ("int8", "uint8"),
        2: ("int16", "float16", "bfloat16"),
        4: ("int32", "float32"),
        8: ("int64", "float64", "complex64"),
    }
    size = b.value.itemsize if b.scope.coin(0.7) else b.scope.one_of((2, 4))
    return "torch." + b.scope.one_of(sizes.get(size, ("int32",)))


_BLANKS: Final[dict[str, Callable[[Blanks], Any]]] = {
    "y": lambda b: b.operand(),
    "w": lambda b: b.operand(same_dtype=True),
    "like": _like,
    "t": _any_tensor,
    "d": lambda b: b.scope.dim(b["x"]),
    "e": lambda b: b.scope.dim(b["x"]),
    "n": lambda b: b.scope.size(b.length()),
    "i": _index,
    "a": _start,
    "b": _stop,
    "len": lambda b: b.scope.size(1 + b.scope.below(b.length() - int(b["a"]))),
    "s": lambda b: b.scope.one_of((1, 1, 2)),
    "k": lambda b: b.scope.one_of((1, 2, 3)),
    "c": _constant,
    "shape": lambda b: b.scope.shape(b.value.shape),
    "factors": _factors,
    "permutation": _permutation,
    "rows": _rows_of,
    "many": lambda b: b["rows"] and b.get("many", b["n"]),
    "parts": lambda b: b["piece"] and b["parts"],
    "mask": _mask,
    "window": _window,
    "pieces": _pieces,
    "piece": _piece,
    "length": lambda b: b.length(),
    "dtype": _dtype,
    "real": _real_dtype,
    "bits": _bits,
    "flag": lambda b: b.scope.coin(),
    "made": lambda b: b.scope.made,
}
