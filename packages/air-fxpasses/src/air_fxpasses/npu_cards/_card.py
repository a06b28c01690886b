"""The card of one operator: everything AIR knows about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from air_fxpasses.npu_cards._ir import Ir
from air_fxpasses.npu_cards._sample import Calls, Draw, Sample
from air_fxpasses.npu_cards._schemas import SCHEMAS
from air_graph import hidden_writes, is_written

if TYPE_CHECKING:
    from air_fxpasses.padding import Labels
    from air_fxpasses.padding._call import Call

Kernel = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class NpuOp:
    """An operator of namespace `npu`, by name or `name.overload`."""

    name: str
    reference: Kernel
    """Computes it with plain torch operators; takes the arguments of the schema."""
    samples: Calls
    """Calls that its tests make; every operator has some."""
    own_fake: Kernel | None = None
    """Gives results of the right size, type and device without computing; sizes may be symbolic.

    Only for operators whose reference looks at values, or takes decisions by sizes: otherwise it foresees itself.
    """
    functional: str | None = None
    """The operator that returns what this one writes, if there is one: the same results, then what was written."""
    updatable: tuple[str, ...] = ()
    """Lengths of the host that a replay of a captured graph may change."""
    padding: Callable[[Call], tuple[Labels, ...]] | None = None
    """What it does to padded sizes, where that is shown; without a rule they are refused."""
    ir: Ir | None = None
    """The operator of Ascend IR that computes it, where one does; for the others air-geir has a function."""

    def calls(self) -> tuple[Sample, ...]:
        """The sample calls, with arguments of their own."""
        return tuple(replace(sample, operator=self.name) for sample in self.samples(Draw()))

    @property
    def fake(self) -> Kernel:
        """Foresees the results: its own fake kernel, or the reference on values without numbers."""
        return self.own_fake or partial(_foreseen, self.reference)

    @property
    def schema(self) -> str:
        """The schema in the recorded wheel."""
        return SCHEMAS[self.name]

    @property
    def parsed(self) -> torch._C.FunctionSchema:
        """The schema, taken apart."""
        return torch._C.parse_schema(self.schema)

    @property
    def overload(self) -> str:
        """The name with its overload written out: `name.default`."""
        return self.name if "." in self.name else f"{self.name}.default"

    @property
    def mutated(self) -> tuple[str, ...]:
        """The arguments that the schema marks as written."""
        return tuple(a.name for a in self.parsed.arguments if is_written(a))

    @property
    def hides_writes(self) -> tuple[str, ...]:
        """Arguments that the device writes although the schema does not say so."""
        return hidden_writes(f"npu::{self.overload}") or ()


def like_first(first: Tensor, *_: object, **__: object) -> Tensor:
    """A fake kernel whose result is as large as the first argument."""
    return first.new_empty(first.shape)


def _foreseen(reference: Kernel, *args: Any, **kwargs: Any) -> Any:
    """What the reference gives for fake values, laid out densely as devices do; an argument is returned as it is."""
    given = {id(leaf) for leaf in tree_leaves((args, kwargs))}
    results = reference(*args, **kwargs)
    return tree_map_only(Tensor, lambda x: x if id(x) in given else x.new_empty(x.shape), results)
