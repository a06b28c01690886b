"""Options that can be set and that no part of this version acts on. Asking for one gives a notice.

`python -m air_config unread packages/air-{aclgraph,backend,geir}/src` compares this list with the sources: an option
that no file names must be here, and one that is named must not.
"""

from __future__ import annotations

from typing import Final

from air_config._rulebook._conditions import ARCHITECTURE
from air_config._rules import KEEP, Rule, fact
from air_config._tree import OPTIONS

__all__ = ["NOT_SERVED", "UNSERVED"]

NOT_SERVED: Final = (
    "debug.aclgraph.record_statistics_debug_info",
    "dump_config.quant_dumpable",
    "ge_config.multistream_parallel_mode",
    "export.export_mode",
    "export.export_path_dir",
    "export.weight_name",
    "export.inputs_name",
    "export.experimental.enable_lite_export",
    "experimental_config.npu_fx_pass",
    "experimental_config.aot_config_output_loss_index",
)

UNSERVED: Final = (
    Rule(
        "compilations-export-nothing",
        fact("the graph is not exported", lambda context: not context.export),
        tuple(path for path in OPTIONS if path.startswith("export.") and path not in NOT_SERVED),
        "ignored",
        "a compilation writes no export; dynamo_export does, by its arguments and export.experimental",
        ARCHITECTURE,
    ),
    Rule(
        "not-in-this-version",
        fact("always", lambda context: True),
        NOT_SERVED,
        "ignored",
        "no part of this version of AIR acts on the option",
        ARCHITECTURE,
        KEEP,
    ),
)
