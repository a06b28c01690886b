"""An invalid command line: one sentence on standard error, and exit code 2, like argparse."""

from __future__ import annotations

import sys
from typing import NoReturn


def wrong_use(command: str, sentence: str) -> NoReturn:
    """Ends the command."""
    print(f"air {command}: {sentence}".replace("air : ", "air: "), file=sys.stderr)
    raise SystemExit(2)
