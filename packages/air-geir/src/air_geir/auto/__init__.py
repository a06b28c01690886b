"""Operators that CANN describes: converted by name and arguments, without a handwritten converter.

A package of custom operators tells CANN what each takes and gives (`aic-<soc>-ops-info.json`). A torch operator without
a converter whose name is that of such an operator (`my_scale` and `MyScale`), and whose arguments are its inputs and
attributes, becomes that operator.  Only packages of custom operators count: an operator that merely has the name of one
of CANN's own may mean something else.
"""

from __future__ import annotations

from air_geir.auto._convert import automatic, made_for
from air_geir.auto._op_info import known_operators

__all__ = ["automatic", "known_operators", "made_for"]
