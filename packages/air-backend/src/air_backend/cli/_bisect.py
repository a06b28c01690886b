"""`air bisect MODULE:FUNC`: which pass, stream, converter or capture makes the result wrong.

The exit code is 0 when the compiled function computes what eager computes, and 1 when it does not.
"""

from __future__ import annotations

import argparse

import torch

from air_backend._bisect import bisect
from air_backend._same import refuse_no_tolerance
from air_backend.cli._target import add_target, built, config_of
from air_backend.cli._usage import wrong_use


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("--calls", type=int, default=4, help="how often each trial calls the function (4)")
    parser.add_argument("--rtol", type=_tolerance, help="relative tolerance (torch's default for the dtype)")
    parser.add_argument("--atol", type=_tolerance, help="absolute tolerance (torch's default for the dtype)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _tolerance(text: str) -> float:
    try:
        value = float(text)
        refuse_no_tolerance(it=value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: a tolerance is a number from 0 up") from None
    return value


def run(arguments: argparse.Namespace) -> int:
    if arguments.calls < 1:
        wrong_use("bisect", f"--calls is {arguments.calls}: at least one call is needed to compare anything")
    config = config_of(arguments)
    function, args, kwargs = built(arguments.target, "bisect")
    with torch.no_grad():
        verdict = bisect(
            function,
            *args,
            compiler_config=config,
            calls=arguments.calls,
            rtol=arguments.rtol,
            atol=arguments.atol,
            **kwargs,
        )
    print(verdict.to_json() if arguments.json else verdict)
    return 0 if verdict.right else 1
