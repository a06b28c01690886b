"""The error of the demo."""

from __future__ import annotations

from dataclasses import dataclass

from air_config.errors import AirError
from air_config.published import document


@dataclass(eq=False)
class DemoMismatch(AirError):
    """A mode of the demo computed a different result than eager.

    Run `air doctor`, isolate the step as the accuracy guide says, and report it.
    """

    mode: str
    difference: float
    allowed: float
    what = "mode {mode} differs from eager by {difference:.3g}; {allowed:.3g} is allowed"
    advice = f"run `air explain` on the model and switch passes off one by one: {document('accuracy')}"
