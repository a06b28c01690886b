"""Rules of devices and of versions of CANN."""

from __future__ import annotations

from typing import Final

from air_config._rulebook._conditions import (
    ARCHITECTURE,
    BESIDE_NPU,
    ENGINE,
    MAX_AUTOTUNE,
    NOT_NPU,
    NPUGRAPH_EX,
    ON_CPU,
    POINT_TO_POINT,
    STATIC,
    SUPER,
    TORCHAIR_IR,
    cann_below,
    in_areas,
)
from air_config._rules import Rule, both, either, option_is

NPU_ENGINE: Final = option_is(ENGINE, "torchair_extension", "ge_session", "atc")
_OTHERS: Final = (
    "this graph runs on the host; the option is for the graphs of the process that run on its NPU"
)

HOST: Final = (
    Rule("npu-kernels-on-the-host", BESIDE_NPU, (STATIC, SUPER), "ignored", _OTHERS, ARCHITECTURE),
    Rule("npu-engine-on-the-host", both(BESIDE_NPU, NPU_ENGINE), (ENGINE,), "ignored", _OTHERS, ARCHITECTURE),
)
"""What is refused where a process has no NPU."""

DEVICES: Final = (
    Rule(
        "super-kernel-needs-npu",
        NOT_NPU,
        (SUPER,),
        "refused",
        "CANN makes super kernels, for NPUs only",
        ARCHITECTURE,
    ),
    Rule(
        "pool-needs-accelerator",
        ON_CPU,
        in_areas("pool"),
        "ignored",
        "the CPU has no graph memory pools",
        ARCHITECTURE,
    ),
    Rule(
        "engine-needs-npu",
        both(NOT_NPU, NPU_ENGINE),
        (ENGINE,),
        "refused",
        "the engine drives CANN; on other devices there is the reference engine",
        ARCHITECTURE,
    ),
    Rule(
        "ge-session-needs-cann-8.5",
        both(option_is(ENGINE, "ge_session"), cann_below("8.5.0")),
        (ENGINE,),
        "refused",
        "the Python session of the graph engine comes with CANN 8.5.0",
        ARCHITECTURE,
    ),
    Rule(
        "ge-options-need-ge",
        both(MAX_AUTOTUNE, either(NOT_NPU, option_is(ENGINE, "reference"))),
        in_areas("ge"),
        "ignored",
        "the option is for the graph engine of CANN, and the reference engine runs the graph",
        ARCHITECTURE,
    ),
    Rule(
        "point-to-point-needs-cann-8.6",
        both(
            POINT_TO_POINT,
            cann_below("8.6.0"),
        ),
        ("context.point_to_point",),
        "refused",
        "sends and receives go into a graph from CANN 8.6.0 on",
        TORCHAIR_IR,
    ),
    Rule(
        "view-inplace-needs-cann-8.3",
        cann_below("8.3.RC1"),
        ("air.view_inplace",),
        "overridden",
        "the in-place scatter operators take views from CANN 8.3.RC1 on",
        NPUGRAPH_EX,
        False,
    ),
)
