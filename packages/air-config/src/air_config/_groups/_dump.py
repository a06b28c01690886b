"""`config.dump_config`: tensors written while the compiled graph runs."""

from __future__ import annotations

from typing import Final, Literal

from air_config import _areas as area
from air_config._kinds import boolean, choice, optional, text
from air_config._option import Group, group, option
from air_config._path_kinds import directory, file

__all__ = ["Dump"]

ON: Final = "dump_config.enable_dump"
STEPS: Final = r"(?:[0-9]{1,9}(?:-[0-9]{1,9})?(?:\|[0-9]{1,9}(?:-[0-9]{1,9})?)*)?"


@group("dump_config")
class Dump(Group):
    """Tensors written while the compiled graph runs."""

    enable_dump: bool = option(False, boolean(), "Write the tensors of every operator.", area.DUMP)
    dump_path: str = option("./", directory(), "Directory of the files.", area.DUMP, needs=ON)
    data_dump_stage: Literal["original", "optimized"] = option(
        "optimized",
        choice("original", "optimized"),
        "Which graph is dumped: as it came, then run eagerly, or as the passes left it.",
        area.ACL_DUMP,
        "experimental",
        needs=ON,
    )
    dump_mode: Literal["input", "output", "all"] = option(
        "all", choice("input", "output", "all"), "Which tensors of an operator.", area.IR_DUMP, needs=ON
    )
    quant_dumpable: bool = option(
        False, boolean(), "Write the inputs of quantisation as well.", area.IR_DUMP, needs=ON
    )
    dump_step: str = option(
        "", text(STEPS, like="0|3-5"), "Steps to dump; empty is all of them.", area.IR_DUMP, needs=ON
    )
    dump_layer: str = option(
        "",
        text(r'[0-9a-zA-Z_ "./\\]*', like="Mul_1 Add1"),
        "Operators to dump, separated by blanks; empty is all of them.",
        area.IR_DUMP,
        needs=ON,
    )
    dump_data: Literal["tensor", "stats"] = option(
        "tensor", choice("tensor", "stats"), "Whole tensors, or statistics of them.", area.IR_DUMP, needs=ON
    )
    dump_config_path: str | None = option(
        None,
        optional(file(".json")),
        "A dump configuration of ACL, passed on as it is.",
        area.IR_DUMP,
    )
