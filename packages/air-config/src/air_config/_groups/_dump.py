"""`config.dump_config`: tensors written while the compiled graph runs."""

from __future__ import annotations

from typing import Final, Literal

from air_config import _areas as area
from air_config._kinds import text
from air_config._option import Group, group, option
from air_config._path_kinds import directory, file

__all__ = ["Dump"]

ON: Final = "dump_config.enable_dump"
STEPS: Final = r"(?:[0-9]{1,9}(?:-[0-9]{1,9})?(?:\|[0-9]{1,9}(?:-[0-9]{1,9})?)*)?"


@group("dump_config", area.IR_DUMP, needs=ON)
class Dump(Group):
    """Tensors written while the compiled graph runs."""

    enable_dump: bool = option(False, "Write the tensors of every operator.", area=area.DUMP)
    dump_path: str = option("./", "Directory of the files.", directory(), area=area.DUMP)
    data_dump_stage: Literal["original", "optimized"] = option(
        "optimized",
        "Which graph is dumped: as it came, then run eagerly, or as the passes left it.",
        area=area.ACL_DUMP,
        status="experimental",
    )
    dump_mode: Literal["input", "output", "all"] = option("all", "Which tensors of an operator.")
    quant_dumpable: bool = option(False, "Write the inputs of quantisation as well.")
    dump_step: str = option("", "Steps to dump; empty is all of them.", text(STEPS, like="0|3-5"))
    dump_layer: str = option(
        "",
        "Operators to dump, separated by blanks; empty is all of them.",
        text(r'[0-9a-zA-Z_ "./\\]*', like="Mul_1 Add1"),
    )
    dump_data: Literal["tensor", "stats"] = option("tensor", "Whole tensors, or statistics of them.")
    dump_config_path: str | None = option(
        None, "A dump configuration of ACL, passed on as it is.", file(".json"), area=area.GE, needs=""
    )
