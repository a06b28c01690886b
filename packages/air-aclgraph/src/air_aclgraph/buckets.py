"""Buckets: a dynamic dim is padded to the next of a few declared sizes, and each of those is captured once.

    air_aclgraph.buckets.set_dim_buckets(tokens, {0: [8, 16, 32]})     # a batch of 11 runs as one of 16

Inputs are filled up with copies of their first row, results are cut to the caller's size.  That what was added never
reaches what was there is proven per operator when the graph is compiled (`air_fxpasses.padding`), or the graph is
refused with the operator that forbids it.  A size beyond the largest bucket runs as it is.

A bucket must be a size that the model itself takes: its graph is captured at that size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from torch import SymInt, Tensor
from torch._dynamo import mark_dynamic
from torch.fx import GraphModule

from air_aclgraph.errors import BucketsRefused
from air_fxpasses import Refusal
from air_fxpasses.declared import Declared, complaint, declared_on, declared_sizes
from air_fxpasses.padding import Proof, prove

ATTRIBUTE: Final = "dim_buckets"
LEAST: Final = 2
"""Torch makes a graph of its own for a size of 1."""
MOST_PER_DIM: Final = 1000


def set_dim_buckets(tensor: Tensor, dim_buckets: Mapping[int, Sequence[int]]) -> None:
    """Declare the sizes that dims of an input tensor are padded to, before the compiled function sees the tensor.

    Every input whose dim has the same symbol in the graph is padded with it.  Inputs with a size in common that the
    graph does not compare (ids and mask of a batch) are each declared, with the same sizes.
    """
    if not isinstance(tensor, Tensor):
        raise BucketsRefused(
            f"buckets are declared on an input tensor, not on {tensor!r}",
            advice="call set_dim_buckets(tensor, {dim: [sizes]}) before the compiled function gets the tensor",
        )
    if wrong := complaint(tensor, dim_buckets, least=LEAST, most=MOST_PER_DIM):
        raise BucketsRefused(f"set_dim_buckets: {wrong[0]}", advice=wrong[1])
    checked = {dim: tuple(sorted(set(sizes))) for dim, sizes in sorted(dim_buckets.items())}
    known = get_dim_buckets(tensor)
    if known is not None and known != checked:
        raise BucketsRefused(
            f"the buckets of this tensor are already {dict(known)}",
            advice="declare them once, or use a new tensor",
        )
    for dim in checked:
        mark_dynamic(tensor, dim)
    setattr(tensor, ATTRIBUTE, checked)


def get_dim_buckets(tensor: Tensor) -> Declared | None:
    """The buckets declared on a tensor."""
    return declared_on(tensor, ATTRIBUTE)


@dataclass(frozen=True)
class Bucket:
    """Sizes that symbols of one graph are padded to together, with the proof that they may be."""

    sizes: tuple[int, ...]
    proof: Proof

    @property
    def symbols(self) -> tuple[Any, ...]:
        """The symbols that have the same value in a call that is padded."""
        return self.proof.size.symbols

    def up(self, size: int) -> int | None:
        """The bucket for a size; None for one that no bucket holds, or that has no row to repeat."""
        return next((bucket for bucket in self.sizes if bucket >= size), None) if size else None


DeclaredBuckets = dict[tuple[int, ...], list[Any]]
"""Declared sizes -> the symbols that stand for the dims they were declared on."""


def find_buckets(example_inputs: Sequence[Any]) -> DeclaredBuckets:
    """What was declared on inputs."""
    found: DeclaredBuckets = {}
    for size, sizes in declared_sizes(example_inputs, ATTRIBUTE):
        if (
            isinstance(size, SymInt)
            and size.node.expr.is_Symbol
            and size.node.expr not in found.get(sizes, [])
        ):
            found.setdefault(sizes, []).append(size.node.expr)
    return found


def proven_buckets(gm: GraphModule, declared: DeclaredBuckets) -> tuple[Bucket, ...]:
    """The buckets declared on inputs of a functional graph, each proven to change no result.

    Symbols with the same buckets are proven one by one where that is possible, otherwise as one size.
    """
    buckets: list[Bucket] = []
    for sizes, wanted in declared.items():
        symbols = [symbol for symbol in wanted if _is_in(gm, symbol)]
        alone = [prove(gm, symbol) for symbol in symbols]
        refused = next((one for one in alone if isinstance(one, Refusal)), None)
        if refused is None:
            buckets.extend(Bucket(sizes, proof) for proof in alone if isinstance(proof, Proof))
            continue
        together = prove(gm, *symbols) if len(alone) > 1 else refused
        if isinstance(together, Refusal):
            raise _refusal(sizes, refused)
        buckets.append(Bucket(sizes, together))
    return tuple(buckets)


def _is_in(gm: GraphModule, symbol: Any) -> bool:
    """Whether an input of this graph has the size; a graph after a break may have none."""
    values = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
    sizes: list[Any] = [size for value in values if isinstance(value, Tensor) for size in value.shape]
    return any(size.node.expr.has(symbol) for size in sizes if isinstance(size, SymInt))


def _refusal(sizes: Sequence[int], refusal: Refusal) -> BucketsRefused:
    return BucketsRefused(
        f"inputs cannot be padded to {list(sizes)}: {refusal.target or refusal.node}: {refusal.reason}",
        where=refusal.source,
        advice="keep the operator out of the compiled function, pad in your program, or declare no buckets",
        operator=refusal.target,
    )
