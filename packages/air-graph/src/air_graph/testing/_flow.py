"""Control flow, graph breaks, and scopes: statements that hold other statements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from air_graph.testing._rows import Blanks, NothingFits
from air_graph.testing._scope import Holds, Scope, anything, at_least, both, is_float, is_number

some = at_least(1)


def few_rows(value: Tensor) -> bool:
    return value.dim() > 0 and 0 < value.shape[0] <= 5


def not_scalar(value: Tensor) -> bool:
    return value.dim() > 0


@dataclass(frozen=True)
class Block:
    """A statement of several lines about a tensor `{x}` for which `holds`; `{made}` is the number of a new name."""

    text: str
    tag: str
    holds: Holds = anything
    exact: bool = False
    """Whether a tensor that was rounded is not taken."""
    writes: bool = False
    inexact: bool = False

    def draw(self, scope: Scope) -> bool:
        """Fills the blanks and takes the statement; False where that does not work out."""
        name = scope.target(self.holds) if self.writes else scope.tensor(self.holds, self.exact)
        if name is None:
            return False
        try:
            text = self.text.format_map(Blanks(scope, name, True))
        except (NothingFits, IndexError):
            return False
        return scope.do(text, self.tag, (name,) if self.writes else (), inexact=self.inexact)


def breaks(scope: Scope) -> bool:
    return scope.do(scope.one_of(('print(end="")', "torch._dynamo.graph_break()")), "graph_break")


#: `if_value` is a graph break in most cases; `while_loop` ends for an empty tensor too, which another call may bring.
_BLOCKS: Final = (
    Block("if {x}.shape[0] > {k}:\n    {x}.add_(1)\nelse:\n    {x}.mul_(3)", "if_size", some, writes=True),
    Block(
        "if {x}.sum() > 0:\n    b{made} = {x} * 2\nelse:\n    b{made} = {x}[...]",
        "if_value",
        is_number,
        exact=True,
    ),
    Block("for i in range({x}.shape[0]):\n    {x}[i].mul_(i)", "for_size", few_rows, writes=True),
    Block("l{made} = [row * 2 for row in {x}]\nw{made} = torch.stack(l{made})", "for_rows", few_rows),
    Block(
        "c{made} = torch.cond({x}.sum() > 0, lambda p: p * 2, lambda p: p - 1, ({x},))",
        "cond",
        both(is_float, not_scalar),
        exact=True,
    ),
    Block(
        "(z{made},) = torch._higher_order_ops.while_loop("
        "lambda p: p.sum() < 3 * p.numel(), lambda p: (p.abs() + 1,), ({x}.clone(),))",
        "while_loop",
        lambda t: is_float(t) and t.numel() > 0,
        exact=True,
    ),
    Block(
        "k{made} = torch.utils.checkpoint.checkpoint(lambda p: p.relu() * 2, {x}, use_reentrant=False)",
        "checkpoint",
        both(is_float, not_scalar),
    ),
    Block(
        "with torch.autocast({x}.device.type, torch.bfloat16):\n    m{made} = {x} @ {x}.t()",
        "autocast",
        lambda t: t.dim() == 2 and t.dtype == torch.float32,
        inexact=True,
    ),
    Block("with torch.no_grad():\n    n{made} = {x} * 2", "no_grad"),
    Block(
        "def write{made}(p):\n    p.add_(1)\n    return p\nh{made} = write{made}({x})",
        "function",
        writes=True,
    ),
)

FLOW: Final[tuple[Callable[[Scope], bool], ...]] = (
    *(breaks,) * 3,
    _BLOCKS[0].draw,
    *(block.draw for block in _BLOCKS),
)


def draw_flow(scope: Scope) -> bool:
    return scope.one_of(FLOW)(scope)
