"""The name `air` for all of AIR: `TORCH_LOGS=air`, `python -m air`.

torch takes a word of TORCH_LOGS only where it knows a module of that name, when nothing of AIR is imported yet.
"""

from __future__ import annotations

if __name__ == "__main__":
    import sys

    from air_backend.cli import main

    sys.exit(main())
