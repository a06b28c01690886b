"""Runs the examples as their READMEs tell a reader to, and compares what the READMEs say is printed.

    python -m house.examples                    every example, as many at a time as there are processors
    python -m house.examples --quick            without those that start processes of their own or take longest
    python -m house.examples --sim              those of air-sim instead, where it is installed beside torch_npu
    python -m house.examples own_pass moe       these alone
    python -m house.examples --notebooks        the notebooks instead, each in a kernel of its own
    python -m house.examples --forked           as forks of one process that has torch imported (`house.forks`)

An example is a folder of `examples/` with a README. Its first `bash` block is the command; every line of its first
`text` block must begin a line of what the command prints. Notebooks are kept without outputs, and fail at the first
cell that raises.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from house import forks
from house.forks import Ended

COMMAND: Final = re.compile(r"^```bash\n(?P<command>[^\n]+)\n```$", re.MULTILINE)
PRINTED: Final = re.compile(r"^```text\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL)
TIMEOUT_S: Final = 300
HEAVY: Final = frozenset({"cache_compile", "moe", "tensor_parallel"})
PRELOADED: Final = [*forks.TORCH, "transformers.models.llama.modeling_llama"]  # what a fork begins with


def found(root: Path) -> list[Path]:
    """The folders of the examples, by name."""
    return sorted(path.parent for path in (root / "examples").glob("*/README.md"))


def notebooks(root: Path) -> list[Path]:
    return sorted((root / "examples/notebooks").glob("*.ipynb"))


def is_simulated(folder: Path) -> bool:
    """Whether its command wants air-sim, and torch_npu with it."""
    return command_of((folder / "README.md").read_text())[0] == "air-sim"


def command_of(readme: str) -> list[str]:
    """What the README has its reader type, with this Python in the place of `python`."""
    match = COMMAND.search(readme)
    if match is None:
        raise ValueError("the README has no block ```bash of one line: what does its reader type?")
    words = shlex.split(match["command"])
    return [sys.executable, *words[1:]] if words[0] == "python" else words


def missing(readme: str, output: str) -> list[str]:
    """The lines that the README promises and no line of the output begins with."""
    match = PRINTED.search(readme)
    promised = match["lines"].splitlines() if match else []
    lines = output.splitlines()
    return [line for line in promised if not any(one.startswith(line) for one in lines)]


def run(folder: Path, root: Path) -> str | None:
    """Runs one example; what went wrong, or nothing."""
    try:
        command = command_of((folder / "README.md").read_text())
        result = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=TIMEOUT_S)
    except (ValueError, OSError, subprocess.TimeoutExpired) as error:
        return f"{folder.name}: {error}"
    return judged(folder, Ended(result.returncode, result.returncode, result.stdout, result.stderr))


def judged(folder: Path, result: Ended) -> str | None:
    """What went wrong with an example that has ended, or nothing."""
    if result.fault:
        return f"{folder.name}: {result.fault}"
    if lines := missing((folder / "README.md").read_text(), result.output):
        return f"{folder.name}: the README promises {lines}, printed was\n{result.output}"
    return None


def run_forked(folders: Sequence[Path], root: Path) -> list[str | None]:
    """Runs examples as forks of this process; what went wrong with each. Those whose command is no Python refuse."""
    commands = [command_of((folder / "README.md").read_text()) for folder in folders]
    if other := [words[0] for words in commands if words[0] != sys.executable]:
        raise ValueError(f"a fork of Python cannot become {', '.join(other)}")
    forks.prepare(*PRELOADED, compiles=bool(PRELOADED))
    results = forks.ended([forks.command(words[1:], root) for words in commands])
    return [judged(folder, result) for folder, result in zip(folders, results, strict=True)]


def run_notebook(path: Path, _: Path) -> str | None:
    """Runs one notebook in a fresh kernel and an empty folder; what went wrong, or nothing."""
    import tempfile

    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    if kept := [
        n for n, cell in enumerate(notebook.cells) if cell.get("outputs") or cell.get("execution_count")
    ]:
        return f"{path.name}: cells {kept} have outputs; clear them before you commit"
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook, timeout=TIMEOUT_S, kernel_name="python3", resources={"metadata": {"path": folder}}
        )
        try:
            client.execute()
        except CellExecutionError as error:
            return f"{path.name}: {error}"
    return None


def main(root: Path, arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--forked", action="store_true")
    parser.add_argument("--notebooks", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sim", action="store_true")
    asked = parser.parse_args(arguments)
    everything, judge = (notebooks(root), run_notebook) if asked.notebooks else (found(root), run)
    unknown = set(asked.names) - {path.stem for path in everything}
    if unknown or not everything:
        parser.error(f"there is no {', '.join(sorted(unknown)) or 'example'} below examples/")
    wanted = [path for path in everything if not asked.names or path.stem in asked.names]
    wanted = [path for path in wanted if not (asked.quick and path.stem in HEAVY)]
    if not asked.notebooks and not asked.names:
        wanted = [path for path in wanted if is_simulated(path) == asked.sim]
    start = time.monotonic()
    if asked.forked and not asked.notebooks:
        faults = [fault for fault in run_forked(wanted, root) if fault]
    else:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            faults = [fault for fault in pool.map(lambda path: judge(path, root), wanted) if fault]
    sys.stdout.writelines(f"{fault}\n" for fault in faults)
    kind, took = "notebooks" if asked.notebooks else "examples", time.monotonic() - start
    sys.stdout.write(
        f"{len(wanted)} {kind}: {len(wanted) - len(faults)} passed, {len(faults)} failed, {took:.0f} s\n"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd(), sys.argv[1:]))
