"""The buckets of one graph, each with the proof that padding to it changes no result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import SymInt, Tensor
from torch.fx import GraphModule

from air_aclgraph.buckets._declared import DeclaredBuckets
from air_aclgraph.errors import BucketsRefused
from air_fxpasses import Refusal
from air_fxpasses.padding import Proof, prove


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

    @property
    def padded_inputs(self) -> list[int]:
        """The inputs that have the padded size."""
        return [index for index, labels in enumerate(self.proof.inputs) if labels and any(labels)]


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


def refuse_mixed(buckets: Sequence[Bucket], name: str) -> None:
    """Refuses a dimension of an input or a result that is a product of two padded sizes."""
    for bucket in buckets:
        others = {symbol for other in buckets if other is not bucket for symbol in other.symbols}
        for labels in (*bucket.proof.inputs, *bucket.proof.results):
            for label in filter(None, labels or ()):
                if others & (label.outer * label.inner).free_symbols:
                    raise BucketsRefused(
                        f"a dimension of an input or a result of {name} is a product of two sizes with buckets",
                        advice="view it as two dimensions, or declare buckets for one of the sizes",
                    )
