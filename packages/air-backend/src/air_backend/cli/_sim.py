"""`--sim`: the `air` command starts itself again on air-sim, which must be there before torch is imported."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from air_backend._npu_plugin import npu_plugin
from air_backend.errors import CannotSimulate

INSTALL: Final = "pip install 'air-backend[npu,sim]'"


def restart(words: Sequence[str]) -> NoReturn:
    """Replaces this process by `air WORDS` on the software Ascend."""
    found = {
        "air-sim": importlib.util.find_spec("air_sim") is not None,
        "torch_npu": npu_plugin().state != "missing",
    }
    if missing := [name for name, is_there in found.items() if not is_there]:
        raise CannotSimulate(" and ".join(missing), INSTALL)
    command = [sys.executable, "-m", "air_sim", "run", "--", "python", "-m", "air_backend.cli", *words]
    sys.stdout.flush()
    os.execv(sys.executable, command)
