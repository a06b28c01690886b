"""Sizes that a caller declared on tensors: found again by the symbols a compiler sees instead.

A compiler gets fake tensors. The mode that made them remembers the real ones, and so which symbol stands for a
dimension on which something was declared. A graph that was read from a file has no real ones: there the sizes are
declared on the fake tensors themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch._dynamo import mark_dynamic
from torch._subclasses.fake_tensor import FakeTensor

from air_fxpasses.errors import DeclarationRefused
from air_graph import hint_of
from air_graph.pieces import is_unbacked

Declared = Mapping[int, tuple[int, ...]]
"""Dim -> sizes."""

LARGEST: Final = 2**31 - 1
"""What a declared size may be at most."""


@dataclass(frozen=True)
class Declaration:
    """One thing that sizes are declared for: the function that declares it, and what it takes."""

    function: str
    attribute: str
    """Where a tensor keeps what was declared on it."""
    noun: str
    least: int
    most: int

    def declare(
        self,
        tensor: object,
        declared: object,
        checked: Callable[[int, Sequence[int]], tuple[int, ...]],
    ) -> None:
        """Keeps sizes on a tensor and makes their dims dynamic; `checked` gives the sizes of one dim as they are kept.

        The same once more is fine; something else is refused.
        """
        if not isinstance(tensor, Tensor):
            raise DeclarationRefused(
                f"{self.noun} are declared on an input tensor, not on {tensor!r}",
                advice=f"call {self.function}(tensor, {{dim: [sizes]}}) before the compiled function gets the tensor",
            )
        if wrong := _complaint(tensor, declared, least=self.least, most=self.most):
            raise DeclarationRefused(f"{self.function}: {wrong[0]}", advice=wrong[1])
        assert isinstance(declared, Mapping)
        sizes = {dim: checked(dim, declared[dim]) for dim in sorted(declared)}
        known = declared_on(tensor, self.attribute)
        if known is not None and known != sizes:
            raise DeclarationRefused(
                f"the {self.noun} of this tensor are already {dict(known)}",
                advice="declare them once, or use a new tensor",
            )
        for dim in sizes:
            mark_dynamic(tensor, dim)
        setattr(tensor, self.attribute, sizes)


def _complaint(tensor: Tensor, declared: object, *, least: int, most: int) -> tuple[str, str] | None:
    """What is wrong with sizes for dims of a tensor, and what to write instead; None where nothing is."""
    if not isinstance(declared, Mapping):
        return f"{declared!r} names no dims", "give a dict of dims to lists of sizes, such as {0: [8, 16]}"
    for dim, sizes in declared.items():
        if (
            type(dim) is not int or not 0 <= dim < tensor.dim()
        ):  # True is an int to Python and a mistake to us
            allowed = f"0 to {tensor.dim() - 1}" if tensor.dim() else "a tensor of rank 0 has none"
            return f"{dim!r} is no dim of a tensor of rank {tensor.dim()}", f"an int: {allowed}"
        if not isinstance(sizes, (list, tuple)) or not sizes:
            return f"the sizes of dim {dim} are {sizes!r}", "give a list of sizes"
        for size in sizes:
            if type(size) is not int or not least <= size <= LARGEST:
                return f"{size!r} is no size for dim {dim}", f"an int from {least} to {LARGEST}"
        if len(sizes) > most:
            return f"dim {dim} has {len(sizes)} sizes", f"give at most {most}"
    return None


def declared_on(tensor: Tensor, attribute: str) -> Declared | None:
    """What was declared on a tensor under this name."""
    found: Declared | None = getattr(tensor, attribute, None)
    return found


def declared_sizes(example_inputs: Sequence[Any], attribute: str) -> Iterator[tuple[Any, tuple[int, ...]]]:
    """Each declared dimension's size, a symbol if the graph has one for it, and the sizes declared."""
    pairs: list[tuple[Tensor, Tensor | None]]
    fakes = [value for value in example_inputs if isinstance(value, FakeTensor)]
    if fakes:
        converter = fakes[0].fake_mode.fake_tensor_converter.meta_converter
        pairs = [
            (t, converter.tensor_memo.get(n)) for t, n in list(converter.describer.lookup_tensor.items())
        ]
        pairs += [(value, value) for value in fakes]
    else:
        pairs = [(value, value) for value in example_inputs if isinstance(value, torch.Tensor)]
    for real, seen in pairs:
        declared = declared_on(real, attribute) or {}
        if seen is None or not declared:
            continue
        _refuse_unbacked(seen, declared)
        if not _is_turned(real, seen, declared):
            for dim, sizes in declared.items():
                yield seen.shape[dim], sizes


def _refuse_unbacked(seen: Tensor, declared: Declared) -> None:
    """A size that the trace may not know cannot be chosen by."""
    for dim in declared:
        if dim < seen.dim() and is_unbacked(seen.shape[dim]):
            raise DeclarationRefused(
                f"sizes are declared for dim {dim} of an input, and torch was told not to know it (mark_unbacked)",
                advice="leave mark_unbacked out: a dim with declared sizes is dynamic already",
            )


def _is_turned(real: Tensor, seen: Tensor, declared: Declared) -> bool:
    """Whether the program turns a tensor in place (`t_`, `squeeze_`): its dims are others where it was traced."""
    if max(declared) >= seen.dim():
        return True
    return real is not seen and [hint_of(size) for size in seen.shape] != list(real.shape)


def declared_by_position(example_inputs: Sequence[Any], attribute: str) -> dict[int, Declared]:
    """What holds for each input of a graph, by position: every dim that shares the symbol of a declared one has it."""
    fakes = [value for value in example_inputs if isinstance(value, FakeTensor)]
    by_symbol = {
        str(size): sizes for size, sizes in declared_sizes(fakes, attribute) if isinstance(size, torch.SymInt)
    }
    found: dict[int, Declared] = {}
    for position, value in enumerate(example_inputs):
        if isinstance(value, FakeTensor):
            own: Declared = {d: by_symbol[str(s)] for d, s in enumerate(value.shape) if str(s) in by_symbol}
        else:
            own = (declared_on(value, attribute) if isinstance(value, Tensor) else None) or {}
        if own:
            found[position] = own
    return found
