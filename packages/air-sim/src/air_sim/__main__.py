"""Runs the command line: python -m air_sim."""

from __future__ import annotations

from air_sim._cli import main

if __name__ == "__main__":
    raise SystemExit(main())
