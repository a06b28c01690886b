"""A command line that cannot be used: one sentence on standard error, and exit code 2, as argparse has it."""

from __future__ import annotations

import sys
from typing import NoReturn


def wrong_use(command: str, sentence: str) -> NoReturn:
    """Ends the command."""
    print(f"air {command}: {sentence}".replace("air : ", "air: "), file=sys.stderr)
    raise SystemExit(2)
