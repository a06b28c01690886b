"""Small graphs of Python's operators, drawn: arithmetic, views, writes in place, and a structure as result.

    x += y; row = x[1]; z[2] = row; return {"0": [z, x], "1": (row,)}

Values are matrices of 4 rows and 4 columns, and rows of 4.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, fx

SIZE: Final = 4
#: What gives a value of its own: of two matrices, or of two rows.
COMPUTES: Final = (operator.add, operator.sub, operator.mul, torch.maximum)
WRITES: Final = (operator.iadd, operator.isub, operator.imul)


class Draw:
    """A graph in the making: its values so far, by their kind."""

    def __init__(self, seed: int) -> None:
        self.chance, self.graph = random.Random(seed), fx.Graph()
        self.matrices = [self.graph.placeholder(name) for name in ("x", "y")]
        self.rows = [self.graph.placeholder("r")]

    def call(self, target: Callable[..., Any], *args: Any) -> fx.Node:
        return self.graph.call_function(target, args)

    def of_one_kind(self) -> list[fx.Node]:
        return self.chance.choice((self.matrices, self.rows))

    def compute(self) -> None:
        kind = self.of_one_kind()
        one, other = self.chance.choice(kind), self.chance.choice(kind)
        kind.append(self.call(self.chance.choice(COMPUTES), one, other))

    def multiply(self) -> None:
        one, other = self.chance.choice(self.matrices), self.chance.choice(self.matrices)
        self.matrices.append(self.call(operator.matmul, one, other))

    def view(self) -> None:
        at = self.chance.randrange(SIZE)
        which = self.chance.choice((at, (slice(None), at)))
        self.rows.append(self.call(operator.getitem, self.chance.choice(self.matrices), which))

    def turn(self) -> None:
        self.matrices.append(self.graph.call_method("t", (self.chance.choice(self.matrices),)))

    def own_row(self) -> fx.Node:
        """A row that shares memory with nothing: what eager reads where it writes is nobody's promise."""
        return self.call(operator.neg, self.chance.choice(self.rows))

    def write(self) -> None:
        kind = self.of_one_kind()
        kind.append(self.call(self.chance.choice(WRITES), self.chance.choice(kind), self.own_row()))

    def assign(self) -> None:
        at = self.chance.randrange(SIZE)
        self.call(operator.setitem, self.chance.choice(self.matrices), at, self.own_row())

    def done(self) -> fx.GraphModule:
        values = [*self.matrices, *self.rows]
        first, second = (self.chance.sample(values, 2) for _ in range(2))
        self.graph.output({"0": first, "1": tuple(second)})
        return fx.GraphModule({}, self.graph)


STATEMENTS: Final = (Draw.compute, Draw.multiply, Draw.view, Draw.turn, Draw.write, Draw.assign)


def drawn_graph(seed: int) -> fx.GraphModule:
    """The graph of a seed."""
    draw = Draw(seed)
    for _ in range(draw.chance.randint(3, 8)):
        draw.chance.choice(STATEMENTS)(draw)
    return draw.done()


def given(seed: int, *, grad: bool) -> tuple[list[Tensor], list[Tensor]]:
    """Leaves, and the arguments that are made of them, which may be written."""
    generator = torch.Generator().manual_seed(seed)
    sizes = ((SIZE, SIZE), (SIZE, SIZE), (SIZE,))
    leaves = [torch.rand(size, generator=generator, dtype=torch.float64) for size in sizes]
    for leaf in leaves:
        leaf.requires_grad_(grad)
    return leaves, [leaf.clone() for leaf in leaves]
