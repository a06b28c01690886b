"""What the commands of AIR share: a reader that has enough ends them in peace, and any letter can be printed.

if __name__ == "__main__":
    sys.exit(printing(main))
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from typing import Final

__all__ = ["printing"]

_OF_WRITING: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def printing(command: Callable[[], int]) -> int:
    """Runs a command that prints, and gives its exit code; 0 where the reader, `head` for example, went before its end.

    What the terminal has no letter for is printed as its escape. A command without an output (`>&-`) prints nothing;
    where the output cannot be written, a full disk for example, that is said, and the code is 1.
    """
    if sys.stdout is None:  # closed by whoever started the command
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 -- for as long as the process lives
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = command()
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        return 0
    except OSError as error:
        if error.filename is not None or error.errno not in _OF_WRITING:
            raise  # of a file of the command, which has a name
        _forget_output()
        sys.stderr.write(f"the output cannot be written: {error.strerror}\n")
        return 1
    return code


def _forget_output() -> None:
    """What is still to be written, when the process ends, goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
