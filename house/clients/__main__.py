"""Runs the suites of a checkout twice and compares: `nox -s clients -- --torchair PATH --torch-npu PATH`.

Prints a line for each module, each test that is ours to answer for, and the share that passes; fails where one is
ours. The lines of both runs stay in the folder that `--results` names.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from house.clients.suites import Module, NoSuchFolder, modules
from house.clients.verdicts import (
    IMPORT,
    Judged,
    Verdict,
    counts,
    judged,
    last_line,
    read_list,
    read_run,
    share,
    stale,
)

MODULE_AT_MOST: Final = 7200  # seconds; each test has a limit of its own
DEVICES: Final = 2  # some tests use the second one


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def command(module: Module, air: bool, seconds: float, test: str, lines: Path) -> list[str]:
    """What runs one module in one way."""
    start = ["air-sim", "run", "--set", f"devices={DEVICES}", "python", "-W", "ignore", "-m"]
    found = [
        *start,
        "house.clients.runner",
        str(module.path),
        "--seconds",
        str(seconds),
        "--write",
        str(lines),
    ]
    if module.suite.mode:
        found += ["--calls" if module.suite.calls else "--compile", module.suite.mode if air else "aot_eager"]
    elif air:
        found += ["--air"]
    found += ["--stub", module.suite.stub] if module.suite.stub else []
    return [*found, "--test", test] if test else found


def told(module: Module) -> dict[str, str]:
    """The variables that a suite wants."""
    suite = module.suite
    checkout = {suite.variable: str(module.checkout.resolve())} if suite.variable else {}
    return checkout | ({suite.flag: "1"} if suite.flag else {})


def both(module: Module, asked: argparse.Namespace) -> tuple[Path, Path]:
    """Runs a module with AIR and with the real one, side by side; where the lines of each are."""
    found = []
    for who in ("air", "real"):
        lines = asked.results / f"{module.name.replace('/', '.')}.{who}.jsonl"
        found.append(lines)
        if asked.again and lines.exists() and (who == "real" or asked.again == "none"):
            continue
        lines.unlink(missing_ok=True)
        with lines.with_suffix(".log").open("w") as log:
            words = command(module, who == "air", asked.seconds, asked.test, lines)
            environment = os.environ | told(module)
            subprocess.run(
                words,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=MODULE_AT_MOST,
                check=False,
            )
    return found[0], found[1]


def report(results: Sequence[Judged], wordy: bool) -> int:
    """Says what the tests of all modules came to; 1 where one is ours."""
    listed = read_list()
    for result in results:
        if result.verdict is Verdict.OURS:
            note = f" (listed as private, but fails otherwise: {result.reason})" if result.reason else ""
            say(
                f"ours: {result.module} {result.test}: {result.air.outcome}: {last_line(result.air.why)}{note}"
            )
        elif wordy and result.verdict in (Verdict.PRIVATE, Verdict.GAP):
            say(f"{result.verdict.value}: {result.module} {result.test}: {result.reason}")
        elif wordy and result.verdict is Verdict.BOTH:
            say(f"fails in both: {result.module} {result.test}: {last_line(result.air.why)}")
    for row in stale(results, listed):
        say(f"passes, and is still in the list of private names: {row}")
    say(f"all: {counts(results)}")
    say(f"of what looks at nothing private and the real one passes, {100 * share(results):.1f} % pass")
    return int(any(result.verdict is Verdict.OURS for result in results))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m house.clients", description=__doc__)
    parser.add_argument("--torchair", type=Path, help="a checkout of TorchAir")
    parser.add_argument("--torch-npu", type=Path, help="a checkout of torch_npu")
    parser.add_argument(
        "--torch-tests",
        type=Path,
        help="a checkout of torch_npu: its copies of PyTorch's own tests, each compiled whole",
    )
    parser.add_argument(
        "--op-plugin",
        type=Path,
        help="a checkout of op-plugin: each call of an operator that its tests make, compiled alone",
    )
    parser.add_argument(
        "--pytorch", type=Path, help="a checkout of PyTorch, whose tests of compilation are run"
    )
    parser.add_argument(
        "--vllm-ascend", type=Path, help="a checkout of vLLM-Ascend, whose compilation/ is run"
    )
    parser.add_argument(
        "--only", default="", help="only modules with this in their name, as torchair/ge_test"
    )
    parser.add_argument("--test", default="", help="only tests with this in their name")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each test")
    parser.add_argument("--results", type=Path, default=Path(".nox/results/clients"))
    kept = "what is in the results is not run again: the real one alone, or none of the two"
    parser.add_argument("--again", choices=("air", "none"), default="", help=kept)
    parser.add_argument("--wordy", action="store_true", help="also name what is private or fails in both")
    asked = parser.parse_args(arguments)
    given = {
        "torchair": asked.torchair,
        "torch-npu": asked.torch_npu,
        "vllm-ascend": asked.vllm_ascend,
        "pytorch": asked.pytorch,
        "torch-tests": asked.torch_tests,
        "op-plugin": asked.op_plugin,
    }
    checkouts = {name: path for name, path in given.items() if path}
    if not checkouts:
        parser.error(f"give a checkout: {', '.join(f'--{name} PATH' for name in given)}")
    asked.results.mkdir(parents=True, exist_ok=True)
    listed = read_list()
    results: list[Judged] = []
    try:
        for module in modules(checkouts, asked.only):
            air, real = map(read_run, both(module, asked))
            found = list(judged(module.name, air, real, listed))
            results += found
            broken = f"; AIR: {last_line(air[IMPORT].why)}" if IMPORT in air else ""
            broken += f"; the real one: {last_line(real[IMPORT].why)}" if IMPORT in real else ""
            say(f"{module.name}: {counts(found)}{broken}")
    except NoSuchFolder as problem:
        say(str(problem))
        return 2
    return report(results, asked.wordy)


if __name__ == "__main__":
    sys.exit(main())
