"""`python -m air_backend.cli` is the `air` command."""

from __future__ import annotations

import sys

from air_backend.cli import main

sys.exit(main())
