"""Control flow, graph breaks, and scopes: statements that hold other statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from air_graph.testing._rows import Blanks, Nothing
from air_graph.testing._scope import Scope, at_least, is_float, is_number

some = at_least(1)


def _filled(scope: Scope, name: str | None, template: str) -> str | None:
    if name is None:
        return None
    try:
        return template.format_map(Blanks(scope, name, True))
    except (Nothing, IndexError):
        return None


def _block(scope: Scope, name: str | None, template: str, tag: str, writes: bool = False) -> bool:
    text = _filled(scope, name, template)
    return text is not None and scope.do(text, tag, (name,) if writes and name is not None else ())


def breaks(scope: Scope) -> bool:
    return scope.do(scope.one_of(('print(end="")', "torch._dynamo.graph_break()")), "graph_break")


def by_size(scope: Scope) -> bool:
    """A branch on a size, that writes or computes."""
    name = scope.target(some)
    return _block(
        scope,
        name,
        "if {x}.shape[0] > {k}:\n    {x}.add_(1)\nelse:\n    {x}.mul_(3)",
        "if_size",
        writes=True,
    )


def by_value(scope: Scope) -> bool:
    """A branch on a value: a graph break in most cases."""
    name = scope.tensor(is_number, exact=True)
    fresh = f"b{scope.made}"
    return _block(
        scope,
        name,
        f"if {{x}}.sum() > 0:\n    {fresh} = {{x}} * 2\nelse:\n    {fresh} = {{x}}[...]",
        "if_value",
    )


def loop(scope: Scope) -> bool:
    name = scope.target(lambda t: t.dim() > 0 and 0 < t.shape[0] <= 5)
    return _block(scope, name, "for i in range({x}.shape[0]):\n    {x}[i].mul_(i)", "for_size", writes=True)


def collected(scope: Scope) -> bool:
    name = scope.tensor(lambda t: t.dim() > 0 and 0 < t.shape[0] <= 5)
    return _block(
        scope,
        name,
        f"l{scope.made} = [row * 2 for row in {{x}}]\nw{scope.made} = torch.stack(l{scope.made})",
        "for_rows",
    )


def cond(scope: Scope) -> bool:
    name = scope.tensor(lambda t: is_float(t) and t.dim() > 0, exact=True)
    fresh = f"c{scope.made}"
    return _block(
        scope,
        name,
        f"{fresh} = torch.cond({{x}}.sum() > 0, lambda p: p * 2, lambda p: p - 1, ({{x}},))",
        "cond",
    )


def without_gradient(scope: Scope) -> bool:
    name = scope.tensor()
    return _block(scope, name, f"with torch.no_grad():\n    n{scope.made} = {{x}} * 2", "no_grad")


def called(scope: Scope) -> bool:
    """A local function that writes to its argument and hands it back."""
    name = scope.target()
    fresh = f"h{scope.made}"
    return _block(
        scope,
        name,
        f"def write{scope.made}(p):\n    p.add_(1)\n    return p\n{fresh} = write{scope.made}({{x}})",
        "function",
        writes=True,
    )


FLOW: Final[tuple[Callable[[Scope], bool], ...]] = (
    breaks,
    breaks,
    breaks,
    by_size,
    by_size,
    by_value,
    loop,
    collected,
    cond,
    without_gradient,
    called,
)


def draw_flow(scope: Scope) -> bool:
    return scope.one_of(FLOW)(scope)
