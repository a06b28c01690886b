"""`air explain MODULE:FUNC`: what AIR does with one function, as text, JSON or one HTML page."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from air_backend._explain import explain
from air_backend.cli._target import add_target, built, config_of
from air_graph.files import refuse_unwritable, write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--html", type=Path, metavar="FILE", help="write one HTML page")


def run(arguments: argparse.Namespace) -> int:
    if arguments.html:
        refuse_unwritable(arguments.html, "the page")
    config = config_of(arguments)
    function, args, kwargs = built(arguments.target, "explain")
    with torch.no_grad():
        report = explain(function, *args, compiler_config=config, **kwargs)
    if arguments.html:
        write_text(arguments.html, report.to_html(), "the page")
        print(f"wrote {arguments.html}")
    else:
        print(report.to_json() if arguments.json else report.to_text())
    return 0
