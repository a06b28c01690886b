"""`--sim`: the `air` command starts itself again on air-sim, which must be there before torch is imported."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from air_backend._npu_plugin import INSTALL, npu_plugin
from air_backend.errors import CannotSimulate

INSTALL_SIM: Final = "pip install air-sim"


def restart(words: Sequence[str]) -> NoReturn:
    """Replaces this process by `air WORDS` on the software Ascend."""
    if importlib.util.find_spec("air_sim") is None:
        raise CannotSimulate("air-sim", INSTALL_SIM)
    if npu_plugin().state == "missing":
        raise CannotSimulate("torch_npu", INSTALL)
    command = [sys.executable, "-m", "air_sim", "run", "--", "python", "-m", "air_backend.cli", *words]
    sys.stdout.flush()
    os.execv(sys.executable, command)
