"""`config.export`: what an export of the Ascend IR graph writes."""

from __future__ import annotations

from typing import Final

from air_config import _areas as area
from air_config._kinds import file_name
from air_config._option import Group, group, option, subgroup
from air_config._path_kinds import directory

__all__ = ["Export", "ExportExperimental"]

ON: Final = "export.export_mode"


@group("export.experimental", area.IR, "experimental")
class ExportExperimental(Group):
    """Extras of an export."""

    enable_record_nn_module_stack: bool = option(False, "Write the stack of modules into the nodes.")
    auto_atc_config_generated: bool = option(False, "Write the deployment files of a model of several ranks.")
    enable_lite_export: bool = option(False, "Prefer the operators of the lite runtime.")


@group("export", area.IR, needs=ON)
class Export(Group):
    """What an export of the Ascend IR graph writes."""

    export_mode: bool = option(False, "Export the graph instead of running it.")
    export_path_dir: str = option("./", "Directory of the files.", directory())
    export_name: str | None = option(None, "Name of the files.", file_name())
    weight_name: str | None = option(None, "Name of the weight files; None derives it.", file_name())
    inputs_name: str | None = option(None, "Name of the files of the inputs; None derives it.", file_name())
    experimental: ExportExperimental = subgroup(ExportExperimental)
