"""Builds the runtime and its C++ tests with a sanitizer, and runs them: python sanitize.py [thread] [address]

Nothing of torch is linked: only the runtime and the collectives, which are where threads meet.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import air_sim
from air_sim._install import find_install

HERE = Path(__file__).parent
NATIVE = Path(air_sim.__file__).parent / "native"
SANITIZERS = {
    "thread": {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"},
    "address": {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"},
}
"""Leaks are not looked for: the runtime's registries live until the process ends, on purpose."""


def _sources() -> list[Path]:
    runtime = [file for file in sorted((NATIVE / "runtime").glob("*.cpp")) if file.name != "stubs.cpp"]
    return [*runtime, *sorted((NATIVE / "hccl").glob("*.cpp")), *sorted(HERE.glob("*.cpp"))]


def _flags(sanitizer: str) -> list[str]:
    checks = "address,undefined" if sanitizer == "address" else sanitizer
    return [
        "-std=c++17",
        "-O1",
        "-g",
        "-fno-omit-frame-pointer",
        f"-fsanitize={checks}",
        "-fno-sanitize=vptr",
    ]


def _compile(source: Path, sanitizer: str, folder: Path) -> Path:
    install = find_install()
    system = [*install.headers, install.torch_npu / "include"]
    target = folder / f"{source.parent.name}-{source.stem}.o"
    includes = [f"-I{NATIVE / 'include'}", f"-I{source.parent}", *(f"-isystem{path}" for path in system)]
    subprocess.run(["g++", *_flags(sanitizer), *includes, "-c", str(source), "-o", str(target)], check=True)
    return target


def run(sanitizer: str, folder: Path) -> int:
    """Exit status of the tests under one sanitizer."""
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        objects = list(pool.map(lambda source: _compile(source, sanitizer, folder), _sources()))
    program = folder / f"tests-{sanitizer}"
    torch = find_install().torch_libraries
    libraries = [f"-L{torch}", f"-Wl,-rpath,{torch}", "-lc10", "-lpthread", "-lrt"]
    subprocess.run(
        ["g++", *_flags(sanitizer), "-o", str(program), *map(str, objects), *libraries], check=True
    )
    environment = {**os.environ, **SANITIZERS[sanitizer], "AIR_SIM_DEVICES": "2"}
    return subprocess.run([str(program)], env=environment, timeout=600, check=False).returncode


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the chosen sanitizers; 0 when every one is clean."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sanitizers", nargs="*", default=list(SANITIZERS), metavar="|".join(SANITIZERS))
    for sanitizer in parser.parse_args(argv).sanitizers:
        with tempfile.TemporaryDirectory() as folder:
            status = run(sanitizer, Path(folder))
        sys.stdout.write(f"{sanitizer} sanitizer: {'clean' if status == 0 else 'FAILED'}\n")
        if status != 0:
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
