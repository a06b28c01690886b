"""Everything this package raises: what happened, where, and what to do about it."""

from __future__ import annotations

import traceback

from torch.fx import Node

from air_graph import SourceLine, source_of
from air_graph.errors import BadRegistration

__all__ = [
    "BadArgument",
    "BadRegistration",
    "FxPassError",
    "NoFakeValue",
    "PassFailed",
    "RequirementNotMet",
]


class FxPassError(Exception):
    """Base of the errors of air-fxpasses.

    Catch it to handle every error of the package.
    """


class PassFailed(FxPassError):
    """A pass raised; the graph is as it was before that pass.

    Leave the pass out, or repair it: the text has the node, your line and the cause.
    """

    def __init__(self, pass_name: str, node: Node | None, cause: BaseException) -> None:
        self.pass_name = pass_name
        self.node = None if node is None else node.name
        self.target = "" if node is None else str(node.target)
        self.source: SourceLine | None = None if node is None else source_of(node)
        self.cause = cause
        super().__init__(str(self))

    def __str__(self) -> str:
        lines = [f"pass '{self.pass_name}' failed: {type(self.cause).__name__}: {self.cause}"]
        raised = traceback.extract_tb(self.cause.__traceback__)
        if raised:
            lines.append(
                f"  raised at  {raised[-1].filename}:{raised[-1].lineno}   {raised[-1].line or ''}".rstrip()
            )
        if self.node is not None:
            lines.append(f"  at node    {self.node} ({self.target})")
        if self.source is not None:
            lines.append(f"  traced at  {self.source}")
        lines.append(f"  advice     the graph is unchanged; leave '{self.pass_name}' out or repair it")
        return "\n".join(lines)


class RequirementNotMet(FxPassError):
    """A pass needs a property of the graph that does not hold where it stands in the pipeline.

    Run a pass that ensures the property first; the text names those that do.
    """

    def __init__(self, pass_name: str, invariant: str, found: str, ensured_by: tuple[str, ...]) -> None:
        self.pass_name = pass_name
        self.invariant = invariant
        self.found = found
        self.ensured_by = ensured_by
        super().__init__(str(self))

    def __str__(self) -> str:
        advice = (
            f"run {' or '.join(self.ensured_by)} first" if self.ensured_by else "no known pass ensures it"
        )
        return (
            f"pass '{self.pass_name}' requires '{self.invariant}', which does not hold: {self.found}\n"
            f"  advice     {advice}"
        )


class BadArgument(FxPassError, ValueError):
    """A call of this package was given something it cannot work with.

    Correct the argument that the text names.
    """


class NoFakeValue(FxPassError):
    """A node has no example value and none can be computed, so nothing is known about its memory.

    Give the operator a fake kernel (`torch.library.register_fake`), or pass example inputs to the pipeline.
    """

    def __init__(self, node: Node, cause: BaseException | None = None) -> None:
        self.node = node.name
        self.target = str(node.target)
        self.source = source_of(node)
        self.cause = cause
        super().__init__(str(self))

    def __str__(self) -> str:
        reason = f": {type(self.cause).__name__}: {self.cause}" if self.cause else ""
        where = f"\n  traced at  {self.source}" if self.source else ""
        return (
            f"no example value for node {self.node} ({self.target}){reason}{where}\n"
            "  advice     give the operator a fake (Meta) kernel, or pass example inputs to the pipeline"
        )
