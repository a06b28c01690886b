"""What `import air_config` costs a cold process, beside the import of what it stands on.

    python benchmarks/import_time.py [--rounds 15]

Every round starts two processes that have imported nothing yet: one imports attrs and the modules of the
standard library that air_config uses, the other imports air_config. Processor time inside the process counts,
so that what other processes do meanwhile is not charged; the goal is a best round below 150 ms.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from statistics import median

BENEATH = "attrs, difflib, hashlib, json, logging"
TIMED = "import time; start = time.process_time(); import {}; print(time.process_time() - start)"
GOAL_MS = 150
KEEPING_BYTECODE = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def milliseconds(modules: str) -> float:
    command = [sys.executable, "-c", TIMED.format(modules)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=KEEPING_BYTECODE)
    return float(done.stdout) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    milliseconds("air_config")  # compiles the bytecode, which an installation does once
    pairs = [(milliseconds("air_config"), milliseconds(BENEATH)) for _ in range(rounds)]
    print(f"{'':24}{'best':>10}{'median':>10}")
    for name, times in zip(("air_config", "what it stands on"), zip(*pairs, strict=True), strict=True):
        print(f"{name:24}{min(times):>7.0f} ms{median(times):>7.0f} ms")
    print(f"ratio of the medians of a round: {median(mine / beneath for mine, beneath in pairs):.2f}")
    print(f"goal: best round below {GOAL_MS} ms: {'met' if min(p[0] for p in pairs) < GOAL_MS else 'MISSED'}")


if __name__ == "__main__":
    main()
