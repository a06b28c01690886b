"""One line of the doctor's report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "absent", "broken"]


@dataclass(frozen=True)
class Finding:
    """What was looked at, how it is, what was seen, and what to do when it is not ok."""

    subject: str
    state: State
    seen: str
    advice: str = ""
