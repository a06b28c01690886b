"""`config.ge_config`, `config.fusion_config`, `config.inference_config`: options of the graph engine."""

from __future__ import annotations

from typing import Final, Literal

from air_config import _areas as area
from air_config._kinds import text
from air_config._option import Group, group, option
from air_config._path_kinds import file

STREAMS: Final = r"cv|(?:LoadBalance|MainStream)(?::(?:[1-9]|[1-5][0-9]|6[0-4]))?"

__all__ = ["Fusion", "Ge", "Inference"]


@group("ge_config", area.GE)
class Ge(Group):
    """Options passed to the graph engine."""

    enable_single_stream: bool = option(False, "Run a static graph on one stream.")
    oo_level: Literal["O1", "O3"] = option("O3", "How much the graph engine optimises; O1 makes no fusions.")
    oo_constant_folding: bool | None = option(None, "Fold constants; None follows `oo_level`.")
    oo_dead_code_elimination: bool | None = option(None, "Remove dead code; None follows `oo_level`.")
    export_compile_stat: Literal["0", "1", "2"] = option(
        "2", "When the result of fusion is written to a file: never, at the end of the process, at once."
    )
    aicore_num: str | None = option(
        None,
        "Cube and vector cores that graphs may use.",
        text(r"[1-9][0-9]{0,3}\|[0-9]{1,4}", like="24|48"),
    )
    optimization_switch: str | None = option(
        None,
        "Passes of the graph engine to switch on or off by name.",
        text(r"[^:;\s]+:(?:on|off)(?:;[^:;\s]+:(?:on|off))*;?", like="PassA:on;PassB:off"),
    )
    multistream_parallel_mode: str | None = option(
        None,
        "How the graph engine spreads a graph over at most 64 streams by itself.",
        text(STREAMS, like='cv", "LoadBalance:8" or "MainStream:8'),
    )


@group("fusion_config", area.GE)
class Fusion(Group):
    """Fusions of the graph engine."""

    fusion_switch_file: str | None = option(None, "File that switches fusions on or off by name.", file())


@group("inference_config", area.IR)
class Inference(Group):
    """Graphs compiled for several sizes of one dimension."""

    dynamic_gears_merge_policy: Literal["zip", "product"] = option(
        "zip", "How the sizes given for several dimensions combine: in step, or each with each."
    )
