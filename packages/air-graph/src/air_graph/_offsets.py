"""Mends the storage offset of example values, which torch's cache of fake results forgets.

    b = a[2:];  s = slice_scatter(b, v)      # s begins at the offset of b in a storage like that of b; the cache says 0

Code that rebuilds a view of `s` over the memory of `b` by its offset would read the wrong elements.
"""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any
from unittest import mock

from torch._guards import detect_fake_mode
from torch._prims_common import clone_preserve_strides
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import guard_or_false

from air_graph._effects import keeps_gaps
from air_graph._examples import computed_again, computing_examples, example_arguments
from air_graph._uses import uses_of


def mend_offsets(gm: GraphModule) -> None:
    """Computes the example values of such results again, and of the views of them."""
    scatters = [node for node in gm.graph.nodes if keeps_gaps(node.target)]
    mode = detect_fake_mode([node.meta.get("val") for node in scatters])
    if mode is None:
        return
    mended: set[Node] = set()
    with computing_examples(mode), mock.patch.object(mode, "cache_enabled", False):
        for node in gm.graph.nodes:
            if keeps_gaps(node.target) or _is_part_of(node, mended):
                base = example_arguments(node)[0][0]
                node.meta["val"] = as_its_base(node.target, computed_again(node), base)
                mended.add(node)


def as_its_base(target: Any, result: Any, base: Any) -> Any:
    """The result where its base lies: of a scatter over all of the base the fake kernel makes a plain copy."""
    if not keeps_gaps(target) or any(guard_or_false(step == 0) for step in base.stride()):
        return result
    if all(guard_or_false(one == other) for one, other in zip(_place(result), _place(base), strict=True)):
        return result
    return clone_preserve_strides(base)


def _place(value: Any) -> tuple[Any, ...]:
    return *value.stride(), value.storage_offset()


def _is_part_of(node: Node, values: Collection[Node]) -> bool:
    """Whether a node only looks at one of the values: a view, several of them, or one of several."""
    if node.target is operator.getitem:
        return node.args[0] in values
    return any(use.aliases and not use.writes and use.value in values for use in uses_of(node))
