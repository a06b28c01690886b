"""How a command ends: 0 for success, 1 where the answer is no, 2 for a command line that cannot be used.

What cannot be used is told in one sentence on standard error: a word of the command line, an option or a mode that does
not exist, a file that cannot be read or written. `argparse` ends with 2 as well.
"""

from __future__ import annotations

import sys
from typing import Final, NoReturn

from air_backend.errors import CannotSimulate, UnknownEnding, UnknownMode
from air_config.errors import ConfigError
from air_graph.errors import CannotWrite

NO: Final = 1
WRONG_USE: Final = 2
USES: Final = (ConfigError, UnknownMode, UnknownEnding, CannotWrite, CannotSimulate)
"""Errors of ours that say that the command cannot be used so."""


def exit_code(error: Exception) -> int:
    """The exit code of a command that an error of ours ended."""
    return WRONG_USE if isinstance(error, USES) else NO


def wrong_use(command: str, sentence: str) -> NoReturn:
    """Ends the command."""
    print(f"air {command}: {sentence}".replace("air : ", "air: "), file=sys.stderr)
    raise SystemExit(WRONG_USE)
