"""`python -m air_graph.testing`: random programs against a backend, and a summary of what differs from eager."""

from __future__ import annotations

import argparse
import ast
import sys
from typing import Any

from air_graph.testing._calls import draw_case
from air_graph.testing._compare import KINDS
from air_graph.testing._judge import Judge
from air_graph.testing._programs import FAMILIES
from air_graph.testing._workers import Order, in_processes


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m air_graph.testing", description=__doc__)
    parser.add_argument("--backend", default="air", help="name of the torch.compile backend (air)")
    parser.add_argument("--mode", help="option `mode` of the backend")
    parser.add_argument("--option", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"))
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first program; the others follow it")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--shrink", type=float, default=20.0, help="seconds that a finding is shrunk for")
    parser.add_argument(
        "--ignore", nargs="*", default=[], choices=KINDS, help="kinds of differences that pass"
    )
    parser.add_argument("--show", action="store_true", help="print the programs, run nothing")
    asked = parser.parse_args(arguments)
    given = {name: _value(text) for name, text in asked.option}
    options = {**({"mode": asked.mode} if asked.mode else {}), **given}
    seeds = range(asked.seed, asked.seed + asked.programs)
    if asked.show:
        for seed in seeds:
            print(f"# {seed}\n{draw_case(seed, device=asked.device, families=asked.families)}\n")
        return 0
    order = Order(
        Judge(asked.backend, options, asked.ignore), ({},), asked.device, asked.families, asked.shrink
    )
    report = in_processes(order, seeds, asked.jobs)
    print(report)
    return 1 if report.findings else 0


def _value(text: str) -> Any:
    """A number or a flag where the text is one."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


if __name__ == "__main__":
    sys.exit(main())
