"""`air explain MODULE:FUNC`: what AIR does with one function, as text, JSON or one HTML page.

`FUNC` takes no arguments and gives what `torch.compile` would be called with, then the example arguments:
a tuple `(model_or_function, args)` or `(model_or_function, args, kwargs)`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import torch

from air_backend._explain import explain
from air_config import CompilerConfig


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="MODULE:FUNC", help="module or file, and a function that gives (fn, args)"
    )
    parser.add_argument("--mode", help="reduce-overhead or max-autotune")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the backend"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--html", type=Path, metavar="FILE", help="write one HTML page")


def run(arguments: argparse.Namespace) -> int:
    config = CompilerConfig()
    if arguments.mode:
        config.mode = arguments.mode
    for text in arguments.option:
        name, _, value = text.partition("=")
        config.set_text(name, value)
    function, args, kwargs = _built(arguments.target)
    with torch.no_grad():
        report = explain(function, *args, compiler_config=config, **kwargs)
    if arguments.html:
        arguments.html.write_text(report.to_html())
        print(f"wrote {arguments.html}")
    else:
        print(report.to_json() if arguments.json else report.to_text())
    return 0


def _built(target: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """What MODULE:FUNC gives."""
    name, _, function = target.partition(":")
    if not function:
        raise SystemExit(f"air explain: {target!r} is not MODULE:FUNC, for example model.py:build")
    module = _module(name)
    try:
        build = getattr(module, function)
    except AttributeError:
        raise SystemExit(f"air explain: {name} has no function {function!r}") from None
    given = build()
    if not isinstance(given, tuple) or len(given) not in (2, 3):
        raise SystemExit(f"air explain: {target} must give (function, args) or (function, args, kwargs)")
    return given[0], tuple(given[1]), dict(given[2]) if len(given) == 3 else {}


def _module(name: str) -> Any:
    path = Path(name)
    sys.path.insert(0, str(path.resolve().parent if path.suffix == ".py" else Path.cwd()))
    if path.suffix != ".py":
        return importlib.import_module(name)
    if not path.is_file():
        raise SystemExit(f"air explain: there is no file {name}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
