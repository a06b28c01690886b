"""Areas: the part of AIR that an option is for, and so when it acts.

Every option belongs to one area. The rules ask the area instead of naming a hundred options: an area says
in which modes its options act, in which of those they still act under `run_eagerly`, on which devices they
exist, and which executor has to run for them to matter.
"""

from __future__ import annotations

from typing import Final, Literal

import attrs

__all__ = ["ACLGRAPH_MODES", "ALL_MODES", "AREAS", "Area"]

ACLGRAPH_MODES: Final = ("reduce-overhead", "npugraph_ex")
ALL_MODES: Final = ("max-autotune", *ACLGRAPH_MODES)


@attrs.frozen
class Area:
    """One row: a part of AIR and the conditions under which its options act."""

    name: str
    text: str
    modes: tuple[str, ...] = ALL_MODES
    eager_modes: tuple[str, ...] = ()
    """Modes in which the options act although `debug.run_eagerly` is on."""
    devices: tuple[str, ...] = ("npu", "cuda", "cpu")
    stage: Literal["always", "passes", "executor"] = "executor"
    """What has to happen for the options to act: nothing, the FX passes, or the executor."""


FRONT: Final = Area("front", "What enters AIR, before any pass.", eager_modes=ALL_MODES, stage="always")
PASSES: Final = Area("passes", "FX passes of every mode.", eager_modes=ACLGRAPH_MODES, stage="passes")
ACL_PASSES: Final = Area(
    "aclgraph-passes", "FX passes of aclgraph.", ACLGRAPH_MODES, ACLGRAPH_MODES, stage="passes"
)
STREAMS: Final = Area("streams", "Streams in the graph.", ACLGRAPH_MODES, ACLGRAPH_MODES, stage="passes")
STATIC_KERNEL: Final = Area(
    "static-kernel", "Kernels compiled for the shapes at hand.", ACLGRAPH_MODES, ACLGRAPH_MODES, ("npu",)
)
CAPTURE: Final = Area("capture", "Capture and replay.", ACLGRAPH_MODES)
POOL: Final = Area("pool", "Memory pools of the device.", ACLGRAPH_MODES, devices=("npu", "cuda"))
SUPER_KERNEL: Final = Area("super-kernel", "Fusion of a captured graph.", ACLGRAPH_MODES, devices=("npu",))
PARAMETERS: Final = Area("parameters", "How parameters are bound.")
DUMP: Final = Area("dump", "Dumps and reports.", eager_modes=("npugraph_ex",), stage="always")
ACL_DUMP: Final = Area(
    "aclgraph-dump", "Dumps of aclgraph.", ACLGRAPH_MODES, ("npugraph_ex",), stage="always"
)
IR_DUMP: Final = Area("ir-dump", "Dumps and reports of Ascend IR.", ("max-autotune",), stage="always")
IR: Final = Area("ir", "Conversion to Ascend IR, whatever engine runs it.", ("max-autotune",))
GE: Final = Area("ge", "The graph engine of CANN.", ("max-autotune",), devices=("npu",))
TRAINING: Final = Area("training", "Experiments with training graphs.", eager_modes=ALL_MODES, stage="always")

AREAS: Final = (
    FRONT,
    PASSES,
    ACL_PASSES,
    STREAMS,
    STATIC_KERNEL,
    CAPTURE,
    POOL,
    SUPER_KERNEL,
    PARAMETERS,
    DUMP,
    ACL_DUMP,
    IR_DUMP,
    IR,
    GE,
    TRAINING,
)
