"""`debug.deadlock_check`: refuses a graph whose collectives may wait for each other forever.

The streams, the events and the order of the collectives are known before anything runs, so nothing has to be captured
or loaded for the check, and it works on any machine.
"""

from __future__ import annotations

from air_config import Settings
from air_streams import StreamPlan
from air_streams.errors import StreamCheckError


def refuse_deadlocks(plan: StreamPlan, settings: Settings) -> None:
    """Raises with every pair of collectives on two streams that no event orders."""
    found = plan.deadlocks() if settings.debug.deadlock_check else ()
    if found:
        raise StreamCheckError(
            f"debug.deadlock_check: {len(found)} pair(s) of collectives may wait for each other for ever",
            where="; ".join(str(finding) for finding in found),
            advice="; ".join(dict.fromkeys(finding.fix for finding in found)),
        )
