"""Importing air_config is quick and brings in the standard library and attrs, nothing else."""

from __future__ import annotations

import json
import subprocess
import sys

DECLARED = {"attr", "attrs", "air_config"}
MOST_MODULES = 150  # attrs, its part of the standard library, and air_config itself

PROGRAM = """
import json, sys
before = set(sys.modules)
import air_config
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""


def python(*arguments: str) -> str:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_cold_import_brings_in_only_what_is_declared() -> None:
    loaded = set(json.loads(python("-c", PROGRAM)))
    assert loaded - set(sys.stdlib_module_names) - DECLARED == set()
    assert not {name for name in loaded if name.startswith("torch")}


def test_a_cold_import_reads_no_option_from_a_broken_environment() -> None:
    """A wrong variable is an error where it is used, not where the package is imported."""
    python(
        "-c", "import os; os.environ['AIR_MODE'] = 'nonsense'; import air_config; air_config.CompilerConfig()"
    )


def test_a_cold_import_loads_few_modules() -> None:
    """What an import costs is modules to load; their times are in benchmarks/import_time.py."""
    loaded = int(
        python(
            "-c", "import sys; before = len(sys.modules); import air_config; print(len(sys.modules) - before)"
        )
    )
    assert loaded < MOST_MODULES, f"import air_config loads {loaded} modules"
