"""Writes docs/reference/api/: every public name of every package, with its signature and its docstring.

    python -m house.api            write the pages
    python -m house.api --check    fail when a page is out of date, or a public name has no docstring

A name is public when its module's `__all__` has it and no part of the module's path begins with an underscore. A name
that several modules offer is described where it is offered first, nearest to the top of the package.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import inspect
import itertools
import pkgutil
import re
import sys
import textwrap
import types
import typing
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any, Final

from house.faults import told, written

PAGES: Final = Path("docs/reference/api")
PACKAGES: Final = (
    "air_backend",
    "air_config",
    "air_aclgraph",
    "air_geir",
    "air_fxpasses",
    "air_streams",
    "air_graph",
    "air_sim",
)
LEFT_OUT: Final = re.compile(
    r"\._|__main__|\.cli\b|\.converters\.|\.families\b|\.kernels\b|\.tools\b|^air_sim\.pytest"
)
ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")
SECTIONS: Final = ("Args:", "Returns:", "Raises:", "Yields:")
OURS: Final = "air_"
WIDTH: Final = 100


def modules(package: str) -> Iterator[types.ModuleType]:
    """The public modules of a package, the package first, then by depth and name."""
    root = importlib.import_module(package)
    found = [found.name for found in pkgutil.walk_packages(root.__path__, f"{package}.")]
    public = [name for name in found if not LEFT_OUT.search(name)]
    yield root
    for name in sorted(public, key=lambda name: (name.count("."), name)):
        yield importlib.import_module(name)


def public_names(module: types.ModuleType) -> list[str]:
    """What `__all__` lists; without one, the functions and classes the module defines itself."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return [name for name in listed if not name.startswith("_")]
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]


class _Written:
    """An annotation that prints as it was written, not as a string in quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def signature(value: Any) -> str:
    """The signature as a reader would type it, long ones a parameter a line; empty where Python has none."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = [p.replace(annotation=_written(p.annotation)) for p in found.parameters.values()]
    found = found.replace(parameters=parameters, return_annotation=_written(found.return_annotation))
    text = ADDRESS.sub("", str(found))
    if len(text) <= WIDTH:
        return text
    inner, _, result = text.rpartition(")")
    names = [ADDRESS.sub("", part) for part in _parts(inner[1:])]
    return "(\n" + "".join(f"    {name},\n" for name in names) + ")" + result


def _written(annotation: Any) -> Any:
    return _Written(annotation) if isinstance(annotation, str) else annotation


def _parts(text: str) -> list[str]:
    """The parameters of a signature: split at the commas that no bracket and no quote encloses."""
    parts, depth, quote = [""], 0, ""
    for char in text:
        if char in "'\"" and quote in ("", char):
            quote = "" if quote else char
        depth += (char in "([{") - (char in ")]}") if not quote else 0
        if char == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


def own_doc(value: Any) -> str:
    """The docstring written for this object: none that it inherits, and none that dataclasses make up."""
    doc = value.__dict__.get("__doc__") if isinstance(value, type) else getattr(value, "__doc__", None)
    if not isinstance(doc, str) or (isinstance(value, type) and doc.startswith(f"{value.__name__}(")):
        return ""
    return inspect.cleandoc(doc)


def members(cls: type) -> Iterator[tuple[str, str, str]]:
    """Name, signature and docstring of the methods and properties that a class defines and describes."""
    for name, value in vars(cls).items():
        if name.startswith("_") and name != "__call__":
            continue
        inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if inspect.isfunction(inner) and (doc := own_doc(inner)):
            yield name, "" if isinstance(value, property) else signature(inner), doc


def fields(cls: type) -> list[str]:
    """The fields of a dataclass or of an attrs class that a caller may read."""
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls) if not field.name.startswith("_")]
    return [a.name for a in getattr(cls, "__attrs_attrs__", ()) if not a.name.startswith("_")]


def described(name: str, value: Any, note: str) -> Iterator[str]:
    """The lines about one name; `note` is what the source says below an assignment."""
    yield from (f"### `{name}`", "")
    if isinstance(value, type) or inspect.isroutine(value):
        kind = "class " if isinstance(value, type) else ""
        yield from (
            "```python",
            f"{kind}{name.rpartition('.')[2]}{signature(value)}",
            "```",
            "",
            *prose(own_doc(value)),
            "",
        )
    else:
        yield from (note or _kind(value), "")
    if isinstance(value, type):
        if listed := fields(value):
            yield from ("Fields: " + ", ".join(f"`{field}`" for field in listed) + ".", "")
        for member, arguments, text in members(value):
            call = " ".join(re.sub(r"\(\n +", "(", arguments).replace(",\n)", ")").split())
            yield f"- `{member}{call}`: {_first_paragraph(text)}"
        yield ""


def _kind(value: Any) -> str:
    """What an object is, where its source says no more."""
    if typing.get_origin(value) is not None:
        return f"`{str(value).replace('typing.', '').replace('collections.abc.', '')}`"
    return f"A `{type(value).__name__}`."


def prose(doc: str) -> list[str]:
    """A docstring as Markdown: arguments become a list, what else is indented in it is code."""
    lines: list[str] = []
    for block in _blocks(doc):
        head, _, rest = block.partition("\n")
        if head in SECTIONS:
            items = re.split(r"\n(?! )", textwrap.dedent(rest))
            lines += [f"{head[:-1]}:", "", *(f"- {' '.join(item.split())}" for item in items), ""]
        elif block.startswith("    "):
            lines += ["```text", *textwrap.dedent(block).splitlines(), "```", ""]
        else:
            lines += [*block.splitlines(), ""]
    return lines


def _blocks(doc: str) -> list[str]:
    """The paragraphs of a docstring; paragraphs of code that follow each other are one."""
    blocks: list[str] = []
    for block in doc.split("\n\n"):
        if blocks and block.startswith("    ") and blocks[-1].startswith("    "):
            blocks[-1] += f"\n\n{block}"
        else:
            blocks.append(block)
    return blocks


def _first_paragraph(doc: str) -> str:
    return " ".join(doc.split("\n\n")[0].split())


def notes(package: str) -> dict[str, str]:
    """What stands below the assignments of a package, by the name that is assigned."""
    found: dict[str, str] = {}
    for name in sorted(name for name in sys.modules if name.partition(".")[0] == package):
        file = getattr(sys.modules[name], "__file__", None)
        body = ast.parse(Path(file).read_text()).body if file and file.endswith(".py") else []
        for assigned, text in itertools.pairwise(body):
            target = (
                assigned.targets[0] if isinstance(assigned, ast.Assign) else getattr(assigned, "target", None)
            )
            value = text.value if isinstance(text, ast.Expr) else None
            if (
                isinstance(target, ast.Name)
                and isinstance(value, ast.Constant)
                and isinstance(value.value, str)
            ):
                found.setdefault(target.id, " ".join(value.value.split()))
    return found


def page(package: str) -> str:
    """The reference page of one package."""
    root = importlib.import_module(package)
    lines = [f"# `{package}`", "", "Written by `python -m house.api`; do not edit.", ""]
    lines += prose((root.__doc__ or "").strip())
    seen, said = set(), notes(package)
    for module in modules(package):
        names = [
            name for name in public_names(module) if not isinstance(getattr(module, name), types.ModuleType)
        ]
        fresh = [name for name in names if _identity(getattr(module, name)) not in seen]
        if not fresh:
            continue
        if module is not root:
            lines += [f"## `{module.__name__}`", "", *prose((module.__doc__ or "").strip())]
        for name in sorted(fresh, key=str.lower):
            value = getattr(module, name)
            seen.add(_identity(value))
            lines += described(f"{module.__name__}.{name}", value, said.get(name, ""))
    text = "\n".join(lines)
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def _identity(value: Any) -> int:
    """Equal for the same function or class, however it is reached; small constants are never the same."""
    return id(value) if callable(value) else id(object())


def undocumented(package: str) -> list[str]:
    """The public functions and classes without a docstring of their own."""
    found = []
    for module in modules(package):
        for name in public_names(module):
            value = getattr(module, name)
            home = getattr(value, "__module__", "") or ""
            if (
                (isinstance(value, type) or inspect.isfunction(value))
                and home.startswith(OURS)
                and not own_doc(value)
            ):
                found.append(f"{module.__name__}.{name}")
    return found


def of_this_machine(package: str) -> list[str]:
    """The public functions with a default that changes while a program runs, such as `os.environ`."""
    values = {
        f"{module.__name__}.{name}": getattr(module, name)
        for module in modules(package)
        for name in public_names(module)
    }
    return [
        f"{name}({parameter.name})"
        for name, value in values.items()
        if inspect.isroutine(value)
        for parameter in inspect.signature(value).parameters.values()
        if isinstance(parameter.default, MutableMapping)
    ]


def main(arguments: list[str], root: Path) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args(arguments).check
    wrong = [
        f"{name}: a public name without a docstring" for package in PACKAGES for name in undocumented(package)
    ]
    wrong += [
        f"{name}: a default that no page can show"
        for package in PACKAGES
        for name in of_this_machine(package)
    ]
    for package in PACKAGES:
        shown = PAGES / f"{package.replace('_', '-')}.md"
        wrong += written(root / shown, page(package), shown, "house.api", check=check)
    return told(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path.cwd()))
