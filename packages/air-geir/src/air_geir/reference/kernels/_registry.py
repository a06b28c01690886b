"""Which kernel computes which operator type, and what a kernel may know before the first call.

A kernel is a factory: it sees the operator once, while the plan is made, and returns the function that every call
runs. That function takes one positional argument per port of the prototype, in order: a tensor, `None` for an
optional port that is not fed, a list for a dynamic port, and plain integers for a port declared `host`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from air_geir.errors import EngineError
from air_geir.types import DataType

Run = Callable[..., Any]


@dataclass(frozen=True)
class Operator:
    """What a kernel knows of its node while the plan is made."""

    type: str
    name: str
    attrs: Mapping[str, Any]
    """Every attribute of the prototype: the node's value, else the default."""
    output_count: int
    output_dtypes: tuple[torch.dtype | None, ...] = ()
    """Types the descriptors promise; None where torch has no such type."""
    constants: Mapping[str, torch.Tensor] | None = None
    """Constant inputs by port name: a kernel may prepare itself for them."""
    subgraphs: Mapping[str, Run] = field(default_factory=dict)
    """The node's subgraphs, ready to run: they take inputs and give outputs."""
    input_types: tuple[DataType, ...] = ()
    """Types of the inputs that are fed, as their descriptors promise them."""

    def attr(self, name: str) -> Any:
        """The attribute's value, text as `str`; one without value or default is an error that names the node."""
        if name not in self.attrs:
            raise EngineError(
                f"operator {self.type} needs attribute {name!r}",
                where=f"node {self.name}",
                advice="set the attribute, or give it a default in the prototype",
            )
        value = self.attrs[name]
        return value.decode() if isinstance(value, bytes) else value

    def keywords(self, words: str) -> dict[str, Any]:
        """Attributes as arguments: `dim`, `alpha=alpha1` for another name, `dtype=type(dst_type)` for a data type."""
        pairs = [word.partition("=") for word in words.split()]
        return {ours: self._argument(theirs or ours) for ours, _, theirs in pairs}

    def _argument(self, word: str) -> Any:
        return self.dtype(word[5:-1]) if word.startswith("type(") else self.attr(word)

    def ints(self, name: str) -> list[int]:
        """An attribute that is a list of integers."""
        return [int(i) for i in self.attr(name)]

    def dtype(self, name: str) -> torch.dtype:
        """An attribute that is a data type, held as the engine's number or as a type."""
        value = self.attr(name)
        return (value if isinstance(value, DataType) else DataType.from_api(int(value))).torch

    def refuse(self, why: str) -> EngineError:
        """The error for a node this kernel cannot compute."""
        return EngineError(
            f"the reference engine cannot run {self.type}: {why}",
            where=f"node {self.name}",
            advice="use an engine of the device, or write this part of the model otherwise",
        )


Factory = Callable[[Operator], Run]


@dataclass(frozen=True)
class Kernel:
    """A factory and what the plan must know about the function it makes."""

    factory: Factory
    host: frozenset[str] = frozenset()
    """Ports that are handed over as integers (a number for rank 0, a tuple for rank 1)."""
    views: frozenset[str] = frozenset()
    """Ports whose storage an output may share."""
    writes: Mapping[str, int] | None = None
    """Ports written in place, with the output that stands for the written tensor."""


_KERNELS: dict[str, Kernel] = {}


def kernel(
    *types: str,
    host: Iterable[str] = (),
    views: Iterable[str] = (),
    writes: Mapping[str, int] | None = None,
) -> Callable[[Factory], Factory]:
    """Registers the factory below for these operator types."""

    def register(factory: Factory) -> Factory:
        for op_type in types:
            if op_type in _KERNELS:
                raise EngineError(
                    f"operator {op_type} already has a reference kernel",
                    advice="give your operator another type",
                )
            _KERNELS[op_type] = Kernel(factory, frozenset(host), frozenset(views), writes)
        return factory

    return register


def plain(rows: Mapping[str, Run | tuple[Run, str]], **traits: Any) -> None:
    """Registers functions of the inputs; the words behind one are attributes that it takes as keywords.

    `"Relu": torch.relu` takes none, `"Celu": (F.celu, "alpha=alpha1")` takes one: see `Operator.keywords`.
    """
    for op_type, row in rows.items():
        function, words = row if isinstance(row, tuple) else (row, "")
        kernel(op_type, **traits)(_taking(function, words))


def _taking(function: Run, words: str) -> Factory:
    return lambda op: partial(function, **op.keywords(words)) if words else function


def kernel_for(op_type: str) -> Kernel | None:
    """The kernel of an operator type, or None."""
    return _KERNELS.get(op_type)


def kernel_types() -> frozenset[str]:
    """Every operator type with a kernel."""
    return frozenset(_KERNELS)
