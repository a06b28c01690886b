"""What the commands of AIR share: a reader that has enough ends them in peace, and any letter can be printed.

if __name__ == "__main__":
    sys.exit(printing(main))
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable

__all__ = ["printing"]


def printing(command: Callable[[], int]) -> int:
    """Runs a command that prints, and gives its exit code; 0 where the reader, `head` for example, went before its end.

    What the terminal has no letter for is printed as its escape.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = command()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code
