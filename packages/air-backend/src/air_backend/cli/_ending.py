"""Exit codes of a command that an error of AIR stopped: 1 when the error is the answer, 2 for wrong usage.

0 is success; what cannot be used is a word of the command line, an option or a mode that does not exist, a file that
cannot be written.
"""

from __future__ import annotations

from typing import Final

from air_backend.errors import CannotSimulate, UnknownEnding, UnknownMode
from air_config.errors import ConfigError
from air_graph.errors import CannotWrite

WRONG_USES: Final = (ConfigError, UnknownMode, UnknownEnding, CannotWrite, CannotSimulate)


def exit_code(error: Exception) -> int:
    """The exit code for an error of ours."""
    return 2 if isinstance(error, WRONG_USES) else 1
