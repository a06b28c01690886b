"""The stream, order and lifetime of every value of a graph."""

from __future__ import annotations

from air_graph import SourceLine
from air_streams import errors, ops, scope
from air_streams._collectives import groups_of, register_collective
from air_streams._cut_scopes import note_scopes, restore_scopes
from air_streams._findings import (
    CollectiveDeadlock,
    Finding,
    Lifetime,
    Race,
    RedundantWait,
    UnknownStream,
    UnmetWait,
    WaitCycle,
)
from air_streams._in_turn import in_turn
from air_streams._library import NAMESPACE, STREAM_OPS
from air_streams._normalize import NormalizeReport, is_native, normalize
from air_streams._objects import rename_objects
from air_streams._outside import Awaited, Outside
from air_streams._plan import PlanOrdering, Resources, StreamPlan, StreamUse
from air_streams._registry import adopt_stream, stream_for
from air_streams._side_by_side import products_side_by_side
from air_streams._steps import (
    Actions,
    EventId,
    LimitCores,
    Record,
    RecordStream,
    RestoreCores,
    Step,
    StreamId,
    Wait,
)
from air_streams._sync import SYNC_MODES, SyncReport, apply_sync
from air_streams._timeline import Timeline
from air_streams._training import drop_forward_copies
from air_streams._version import __version__
from air_streams.errors import ScopeIgnored, StreamRaceWarning, StreamsError

__all__ = [
    "NAMESPACE",
    "STREAM_OPS",
    "SYNC_MODES",
    "Actions",
    "Awaited",
    "CollectiveDeadlock",
    "EventId",
    "Finding",
    "Lifetime",
    "LimitCores",
    "NormalizeReport",
    "Outside",
    "PlanOrdering",
    "Race",
    "Record",
    "RecordStream",
    "RedundantWait",
    "Resources",
    "RestoreCores",
    "ScopeIgnored",
    "SourceLine",
    "Step",
    "StreamId",
    "StreamPlan",
    "StreamRaceWarning",
    "StreamUse",
    "StreamsError",
    "SyncReport",
    "Timeline",
    "UnknownStream",
    "UnmetWait",
    "Wait",
    "WaitCycle",
    "__version__",
    "adopt_stream",
    "apply_sync",
    "drop_forward_copies",
    "errors",
    "groups_of",
    "in_turn",
    "is_native",
    "normalize",
    "note_scopes",
    "ops",
    "products_side_by_side",
    "register_collective",
    "rename_objects",
    "restore_scopes",
    "scope",
    "stream_for",
]
