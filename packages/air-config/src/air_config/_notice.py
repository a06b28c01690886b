"""A notice: one option that did not take effect as it was set, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from air_config._kinds import thaw

__all__ = ["Effect", "Notice"]

Effect = Literal["ignored", "overridden", "refused"]


DONE: Final[Mapping[str, str]] = {
    "context.buckets": "set_dim_buckets",
    "context.cards": "work on several NPUs in one process",
    "context.gears": "set_dim_gears",
    "context.multi_stream": "work on several streams (npu_stream_switch and the like)",
    "context.point_to_point": "sending to or receiving from single ranks",
}
"""What the user did, for each fact that a rule acts on; notices say it in these words."""


@attrs.frozen
class Notice:
    """What became of one option.

    `ignored`: it has no effect here. `overridden`: another value is used. `refused`: it cannot be had here;
    `Settings.check` raises.
    """

    option: str
    """Path of the option, or `context.<fact>` for a fact about the graph or the job."""
    effect: Effect
    rule: str
    """Name of the rule, as the reference page lists it."""
    source: str
    """The document the rule comes from."""
    reason: str
    given: Any
    used: Any
    origin: str
    """Where the given value came from."""
    asked: bool
    """Whether the given value was asked for; if not, a default was changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields, ready for JSON: a value that JSON does not know is given as text."""
        fields = {name: getattr(self, name) for name in attrs.fields_dict(type(self))}
        fields["given"], fields["used"] = _plain(self.given), _plain(self.used)
        return fields

    def __str__(self) -> str:
        done = DONE.get(self.option)
        subject = done or f"{self.option}={self.given!r} ({self.origin})"
        used = f", {self.used!r} is used" if self.effect == "overridden" and done is None else ""
        return f"{subject} is {self.effect}{used}: {self.reason} [{self.rule}; {self.source}]"


def _plain(value: Any) -> Any:
    value = thaw(value)
    return value if isinstance(value, (bool, int, float, str, list, dict, type(None))) else repr(value)
