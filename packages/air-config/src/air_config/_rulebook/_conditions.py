"""The words of the rule table: source documents, option paths, and conditions that several rows share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from air_config._areas import ACLGRAPH_MODES, Area
from air_config._rules import When, both, fact, option_is, option_on
from air_config._tree import OPTIONS

GUIDE: Final = "TorchAir guide, "
INTRODUCTION: Final = GUIDE + "Introduction: supported products"
RUN_EAGERLY: Final = GUIDE + "run-eagerly: constraints"
FX_PASSES: Final = GUIDE + "FX pass configuration: constraints"
STATIC_KERNELS: Final = GUIDE + "static kernel compilation: constraints"
STREAMS: Final = GUIDE + "multi-stream in the graph (aclgraph): constraints"
SUPPORT_CHECK: Final = "TorchAir: options per mode"
TORCHAIR_IR: Final = "TorchAir: max-autotune options"
NPUGRAPH_EX: Final = "npugraph_ex: options"
TORCH_NPU: Final = "torch_npu 2.13: graph capture"
ARCHITECTURE: Final = "AIR: architecture"

STATIC: Final = "experimental_config.aclgraph._aclnn_static_shape_kernel"
SUPER: Final = "experimental_config.aclgraph._super_kernel_optimize"
INPLACEABLE: Final = "debug.aclgraph.disable_reinplace_inplaceable_ops_pass"
MUTATED: Final = "debug.aclgraph.disable_reinplace_input_mutated_ops_pass"
REINPLACE: Final = (INPLACEABLE, MUTATED)
DUMP: Final = "dump_config.enable_dump"
ENGINE: Final = "air.engine"


def where(holds: Callable[[Area], bool]) -> tuple[str, ...]:
    return tuple(path for path, row in OPTIONS.items() if holds(row.area))


def in_areas(*names: str) -> tuple[str, ...]:
    return where(lambda area: area.name in names)


def off_when_eager(mode: str) -> tuple[str, ...]:
    """Options of a mode that do not act when the graph runs eagerly."""
    return where(lambda area: mode in area.modes and mode not in area.eager_modes)


def but(paths: tuple[str, ...], *left_out: str) -> tuple[str, ...]:
    return tuple(path for path in paths if path not in left_out)


MAX_AUTOTUNE: Final = option_is("mode", "max-autotune")
ACLGRAPH: Final = option_is("mode", *ACLGRAPH_MODES)
EAGERLY: Final = option_is("debug.run_eagerly", True)
DATA_DUMP: Final = option_on("debug.data_dump.type")
ORIGINAL_DUMP: Final = both(option_is(DUMP, True), option_is("dump_config.data_dump_stage", "original"))
BUCKETS: Final = fact("buckets are declared", lambda context: context.buckets)
NOT_NPU: Final = fact("the device is no NPU", lambda context: context.device != "npu")
ON_CPU: Final = fact("the device is the CPU", lambda context: context.device == "cpu")
BESIDE_NPU: Final = fact(
    "the graph runs on the host of a process that has an NPU",
    lambda context: context.device == "cpu" and context.npu_elsewhere,
)
ON_CUDA: Final = fact("the device is a CUDA GPU", lambda context: context.device == "cuda")
MANY_STREAMS: Final = fact("the graph uses several streams", lambda context: context.multi_stream)
GEARS: Final = fact("gears are set", lambda context: context.gears)
OTHER_PRODUCT: Final = fact(
    "the chip is known and of neither the A2 nor the A3 series",
    lambda context: context.device == "npu" and context.product == "other",
)
MANY_PROCESSES: Final = fact("the job has several processes", lambda context: context.world_size > 1)
DYNAMIC: Final = fact("the graph has symbolic sizes", lambda context: context.dynamic is True)
POINT_TO_POINT: Final = fact("the graph sends or receives", lambda context: context.point_to_point)
EXPORTED: Final = fact("the graph is exported", lambda context: context.export)


def cann_below(version: str) -> When:
    text = f"CANN is older than {version}"
    return fact(text, lambda context: context.device == "npu" and context.cann_below(version))
