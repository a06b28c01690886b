"""`config.export`: what an export of the Ascend IR graph writes."""

from __future__ import annotations

from typing import Final

from air_config import _areas as area
from air_config._kinds import boolean, file_name, optional
from air_config._option import Group, group, option, subgroup
from air_config._path_kinds import directory

__all__ = ["Export", "ExportExperimental"]

ON: Final = "export.export_mode"


@group("export.experimental")
class ExportExperimental(Group):
    """Extras of an export."""

    enable_record_nn_module_stack: bool = option(
        False, boolean(), "Write the stack of modules into the nodes.", area.IR, "experimental"
    )
    auto_atc_config_generated: bool = option(
        False, boolean(), "Write the deployment files of a model of several ranks.", area.IR, "experimental"
    )
    enable_lite_export: bool = option(
        False, boolean(), "Prefer the operators of the lite runtime.", area.IR, "experimental"
    )


@group("export")
class Export(Group):
    """What an export of the Ascend IR graph writes."""

    export_mode: bool = option(False, boolean(), "Export the graph instead of running it.", area.IR)
    export_path_dir: str = option("./", directory(), "Directory of the files.", area.IR, needs=ON)
    export_name: str | None = option(None, optional(file_name()), "Name of the files.", area.IR, needs=ON)
    weight_name: str | None = option(
        None, optional(file_name()), "Name of the weight files; None derives it.", area.IR, needs=ON
    )
    inputs_name: str | None = option(
        None, optional(file_name()), "Name of the files of the inputs; None derives it.", area.IR, needs=ON
    )
    experimental: ExportExperimental = subgroup(ExportExperimental)
