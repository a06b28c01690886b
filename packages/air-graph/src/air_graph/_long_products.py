"""Mends products and sums of sizes that torch traces with more than two operands.

    mul = operator.mul(s0, s1, s2)      ->      mul_1 = operator.mul(s0, s1);  mul = operator.mul(mul_1, s2)

The functions take two, and torch's own printing of such a node leaves the others out: a wrong stride.
"""

from __future__ import annotations

import operator
from typing import Final

import torch
from torch.fx import GraphModule

_OF_TWO: Final = frozenset({operator.mul, operator.add})


def mend_long_products(gm: GraphModule) -> bool:
    """Writes each of them as a chain; says whether there were any."""
    mended = False
    for node in gm.graph.nodes:
        if node.op != "call_function" or node.target not in _OF_TWO or len(node.args) < 3:
            continue
        first, second, *rest = node.args
        with gm.graph.inserting_before(node):
            for operand in rest:
                first, second = gm.graph.call_function(node.target, (first, second)), operand
                values = [arg.meta["val"] if isinstance(arg, torch.fx.Node) else arg for arg in first.args]
                first.meta["val"] = node.target(*values)
        node.args = (first, second)
        mended = True
    if mended:
        gm.recompile()
    return mended
