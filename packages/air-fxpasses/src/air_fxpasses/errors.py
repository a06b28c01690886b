"""The errors of air-fxpasses: what happened, where, and what to do."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterable

from torch.fx import Node

from air_config.errors import AirError
from air_graph import source_of
from air_graph.errors import BadRegistration

__all__ = [
    "BadArgument",
    "BadRegistration",
    "DeclarationRefused",
    "FxPassError",
    "NoFakeValue",
    "PassFailed",
    "RequirementNotMet",
]


class FxPassError(AirError):
    """Base of the errors of air-fxpasses.

    Catch it to handle every error of the package.
    """


class PassFailed(FxPassError):
    """A pass raised; the graph is as it was before that pass.

    Leave the pass out, or repair it: the message has the node, your line and the cause, and the function where the
    pass is one of yours.
    """

    def __init__(
        self, pass_name: str, node: Node | None, cause: BaseException, function: object = None
    ) -> None:
        self.pass_name = pass_name
        self.node = None if node is None else node.name
        self.target = "" if node is None else str(node.target)
        self.cause = cause
        self.function, self._file = _name_and_file(function)
        super().__init__(
            f"pass '{pass_name}' failed: {type(cause).__name__}: {cause}",
            where=node and source_of(node),
            advice=f"the graph is unchanged; leave '{pass_name}' out or repair it",
        )

    def details(self) -> Iterable[tuple[str, object]]:
        frames = traceback.extract_tb(self.cause.__traceback__)
        raised = [at for at in frames if self.function is None or at.filename == self._file][-1:]
        yield "function", self.function
        yield "raised at", "".join(f"{at.filename}:{at.lineno}   {at.line or ''}".rstrip() for at in raised)
        yield "node", self.node and f"{self.node} ({self.target})"


def _name_and_file(function: object) -> tuple[str | None, str | None]:
    """What a function of the user is called and where it begins, and its file; nothing where there is none."""
    if function is None:
        return None, None
    user = inspect.unwrap(function) if callable(function) else function
    name = getattr(user, "__qualname__", type(user).__qualname__)
    called = user if hasattr(user, "__code__") else getattr(type(user), "__call__", None)  # noqa: B004 -- the method
    code = getattr(called, "__code__", None)
    if code is None:
        return name, None
    return f"{name} at {code.co_filename}:{code.co_firstlineno}", code.co_filename


class RequirementNotMet(FxPassError):
    """A pass needs a property of the graph that does not hold where it stands in the pipeline.

    Run a pass that ensures the property first; the message names those that do.
    """

    def __init__(self, pass_name: str, invariant: str, found: str, ensured_by: tuple[str, ...]) -> None:
        self.pass_name = pass_name
        self.invariant = invariant
        self.found = found
        self.ensured_by = ensured_by
        super().__init__(
            f"pass '{pass_name}' requires '{invariant}', which does not hold: {found}",
            advice=f"run {' or '.join(ensured_by)} first"
            if ensured_by
            else f"add a pass that ensures it before '{pass_name}', or leave '{pass_name}' out",
        )


class BadArgument(FxPassError, ValueError):
    """A call into this package has an argument that it cannot use.

    Correct the argument that the message names.
    """


class DeclarationRefused(FxPassError, ValueError, AssertionError):  # the latter as TorchAir
    """Sizes were declared on a tensor (`set_dim_buckets`, `set_dim_gears`) in a way that cannot be served.

    Declare a list of sizes for each dimension, once per tensor, as the text says.
    """


class NoFakeValue(FxPassError):
    """A node has no example value and none can be computed, so nothing is known about its memory.

    Give the operator a fake kernel (`torch.library.register_fake`), or pass example inputs to the pipeline.
    """

    def __init__(self, node: Node, cause: BaseException | None = None) -> None:
        self.node = node.name
        self.target = str(node.target)
        self.cause = cause
        reason = f": {type(cause).__name__}: {cause}" if cause else ""
        super().__init__(
            f"no example value for node {self.node} ({self.target}){reason}",
            where=source_of(node),
            advice="give the operator a fake (Meta) kernel, or pass example inputs to the pipeline",
        )
