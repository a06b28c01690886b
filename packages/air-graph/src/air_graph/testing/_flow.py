"""Control flow, graph breaks, and scopes: statements that hold other statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from air_graph.testing._rows import Blanks, NothingFits
from air_graph.testing._scope import Scope, at_least, is_float, is_number

some = at_least(1)


def _filled(scope: Scope, name: str | None, template: str) -> str | None:
    if name is None:
        return None
    try:
        return template.format_map(Blanks(scope, name, True))
    except (NothingFits, IndexError):
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


def repeated(scope: Scope) -> bool:
    name = scope.tensor(lambda t: is_float(t) and t.numel() > 0, exact=True)
    """It ends for a tensor of no elements too, which another call may bring."""
    loop = "torch._higher_order_ops.while_loop"
    ends = "lambda p: p.sum() < 3 * p.numel()"
    text = f"(z{scope.made},) = {loop}({ends}, lambda p: (p.abs() + 1,), ({{x}}.clone(),))"
    return _block(scope, name, text, "while_loop")


def checkpointed(scope: Scope) -> bool:
    name = scope.tensor(lambda t: is_float(t) and t.dim() > 0)
    checkpoint = "torch.utils.checkpoint.checkpoint"
    text = f"k{scope.made} = {checkpoint}(lambda p: p.relu() * 2, {{x}}, use_reentrant=False)"
    return _block(scope, name, text, "checkpoint")


def autocast(scope: Scope) -> bool:
    """A product in half precision."""
    name = scope.tensor(lambda t: t.dim() == 2 and str(t.dtype) == "torch.float32")
    fresh = f"m{scope.made}"
    text = f"with torch.autocast({{x}}.device.type, torch.bfloat16):\n    {fresh} = {{x}} @ {{x}}.t()"
    if not _block(scope, name, text, "autocast"):
        return False
    scope.inexact.add(fresh)
    return True


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
    repeated,
    checkpointed,
    autocast,
    without_gradient,
    called,
)


def draw_flow(scope: Scope) -> bool:
    return scope.one_of(FLOW)(scope)
