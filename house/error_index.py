"""Writes docs/errors.md: every error of every package, what it means and what to do, from the docstrings.

    python -m house.error_index            write the page
    python -m house.error_index --check    fail when the page is out of date, or an error says not what to do

The one source is the docstring of the class: its first paragraph says what happened, the rest what to do about it.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from house.faults import cell, told, written

PAGE: Final = Path("docs/errors.md")
SOURCES: Final = "packages/*/src/**/errors.py"
HEAD: Final = """# Errors

Written by `python -m house.error_index`; do not edit.

Every error says what happened, where (the line of your program, when there is one) and what to do. This page lists
the classes, so that you can find one by its name. An error that is raised while `torch.compile` compiles arrives
inside torch's `BackendCompilerFailed`: its text is the same, and the error itself is its `inner_exception`.

```python
from torch._dynamo.exc import BackendCompilerFailed

try:
    compiled(x)
except BackendCompilerFailed as failed:
    print(type(failed.inner_exception).__name__, failed.inner_exception)
```

What you see and no class: [questions and answers](faq.md).
"""


def modules(root: Path) -> Iterator[types.ModuleType]:
    """The `errors` modules of the packages."""
    for path in sorted(root.glob(SOURCES)):
        parts = path.relative_to(root).with_suffix("").parts[3:]
        yield importlib.import_module(".".join(parts))


def classes(module: types.ModuleType) -> list[type]:
    """The errors and warnings a module defines, in the order of their definition."""
    return [
        value
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and issubclass(value, BaseException)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]


def meaning(error: type) -> tuple[str, str]:
    """What an error means and what to do about it; empty where its docstring does not say."""
    first, _, rest = inspect.cleandoc(error.__dict__.get("__doc__") or "").partition("\n\n")
    advice = rest.partition("\nArgs:")[0]
    return " ".join(first.split()), " ".join(advice.split())


def page(root: Path) -> str:
    lines = [HEAD]
    for module in modules(root):
        lines += [f"## `{module.__name__}`", "", "| error | what it means | what to do |", "|---|---|---|"]
        for error in classes(module):
            what, advice = meaning(error)
            lines.append(f"| `{error.__name__}` | {cell(what)} | {cell(advice)} |")
        lines.append("")
    return "\n".join(lines)


def silent(root: Path) -> list[str]:
    """The errors whose docstring does not say what to do."""
    return [
        f"{module.__name__}.{error.__name__}: the docstring needs a second paragraph that says what to do"
        for module in modules(root)
        for error in classes(module)
        if not all(meaning(error))
    ]


def main(arguments: list[str], root: Path) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args(arguments).check
    return told([*silent(root), *written(root / PAGE, page(root), PAGE, "house.error_index", check=check)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path.cwd()))
