"""`config.aoe_config`: tuning of static graphs."""

from __future__ import annotations

from typing import Final, Literal

from air_config import _areas as area
from air_config._option import Group, group, option
from air_config._path_kinds import directory, file

__all__ = ["Aoe"]

ON: Final = "aoe_config.aoe_mode"


@group("aoe_config", area.GE, needs=ON)
class Aoe(Group):
    """Tuning of static graphs, once, at the first call."""

    aoe_mode: Literal["2"] | None = option(None, '"2" tunes the operators; None does not tune.')
    work_path: str = option("./", "Directory of the tuning.", directory())
    aoe_config_file: str | None = option(None, "Configuration of the tuner.", file())
