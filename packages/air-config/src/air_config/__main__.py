"""`python -m air_config`: write or check the reference page, print the schema, show what a place resolves to."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from air_config import CompilerConfig, ConfigError, Context, resolve
from air_config._reference import reference_page
from air_config._unread import unread_options
from air_config.terminal import printing

DEFAULT_PAGE = "docs/reference/config.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0, or 1 for an error or a page that is out of date."""
    parser = argparse.ArgumentParser(prog="python -m air_config", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    docs = commands.add_parser("docs", help="write the reference page")
    docs.add_argument("--output", type=Path, default=Path(DEFAULT_PAGE), help=f"default: {DEFAULT_PAGE}")
    docs.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 when the page is out of date"
    )
    docs.set_defaults(run=_docs)

    unread = commands.add_parser(
        "unread", help="list options that no source names; exit 1 when there are any"
    )
    unread.add_argument(
        "folders", nargs="+", type=Path, help="the sources of the packages that serve options"
    )
    unread.set_defaults(run=_unread)

    schema = commands.add_parser("schema", help="print the JSON Schema of a configuration")
    schema.set_defaults(run=_schema)

    show = commands.add_parser("show", help="print values, origins and notices")
    show.add_argument(
        "-o",
        dest="options",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option, flat or dotted",
    )
    show.add_argument("--json", type=Path, metavar="FILE", help="start from a configuration in JSON")
    show.add_argument("--preset", help="start from a preset")
    show.add_argument("--device", default="npu", choices=("npu", "cuda", "cpu"))
    show.add_argument("--soc", help='name of the chip, such as "Ascend910B3"')
    show.add_argument("--cann", help='version of CANN, such as "8.5.0"')
    show.add_argument("--multi-stream", action="store_true", help="the graph uses several streams")
    show.add_argument("--all", action="store_true", help="also options at their defaults")
    show.set_defaults(run=_show)

    given = parser.parse_args(arguments)
    try:
        return printing(lambda: int(given.run(given)))
    except (ConfigError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _docs(given: argparse.Namespace) -> int:
    page, path = reference_page(), given.output
    if not given.check:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
        return 0
    there = _text_of(path, "name the reference page that `docs` wrote") if path.exists() else ""
    if there == page:
        return 0
    changes = difflib.unified_diff(
        there.splitlines(), page.splitlines(), str(path), "the option tree", lineterm=""
    )
    sys.stderr.write("\n".join([*changes, f"{path} is out of date; run: python -m air_config docs", ""]))
    return 1


def _unread(given: argparse.Namespace) -> int:
    for folder in given.folders:
        if not folder.is_dir():
            raise ConfigError(f"{folder} is no folder", advice="name folders of Python sources")
    wrong = unread_options(given.folders)
    for path, what in wrong.items():
        print(f"{path}: {what}")
    return 1 if wrong else 0


def _schema(given: argparse.Namespace) -> int:
    print(json.dumps(CompilerConfig.json_schema(), indent=2))
    return 0


def _show(given: argparse.Namespace) -> int:
    config = CompilerConfig()
    if given.json is not None:
        config = CompilerConfig.from_json(
            _text_of(given.json, "name a file that CompilerConfig.to_json wrote")
        )
    config = CompilerConfig.from_options(config, mode=given.preset)
    for name, text in map(_split, given.options):
        config.set_text(name, text)
    context = Context(device=given.device, soc=given.soc, cann=given.cann, multi_stream=given.multi_stream)
    resolve(config, context).show(everything=given.all)
    return 0


def _text_of(path: Path, advice: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise ConfigError(f"{path} cannot be read: {reason}", advice=advice) from None


def _split(option: str) -> tuple[str, Any]:
    name, equals, value = option.partition("=")
    if not equals:
        raise ConfigError(f"the option -o {name} has no value", advice=f"write -o {name}=<value>")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
