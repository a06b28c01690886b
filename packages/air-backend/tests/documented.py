"""The examples in torch's documentation, statement by statement, each that computes something as a function.

>>> a = torch.randn(2, 3)        a function of nothing
>>> b = a.t().contiguous()       a function of `a`
>>> for x in b: print(x)         run as it is
"""

from __future__ import annotations

import ast
import copy
import doctest
import importlib
import inspect
import linecache
import pkgutil
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

#: Packages whose examples need files, other machines or devices, other languages, or compile by themselves.
LEFT_OUT = (
    "ao", "backends", "compiler", "cpp_extension", "cuda", "distributed", "export", "fx", "hub", "jit", "library",
    "mps", "mtia", "multiprocessing", "onnx", "package", "profiler", "testing", "utils.benchmark", "utils.bottleneck",
    "utils.cpp_extension", "utils.data", "utils.tensorboard", "xpu",
)  # fmt: skip
#: What an example must not do to the process, nor wait for.
FORBIDDEN = (
    "cuda", "open(", "save(", "load(", "tofile", "from_file", "download", "compile(", "set_default", "set_flush",
    "set_print", "set_num", "deterministic", "requests", "plot", "pretrained", "multiprocess", "fork", "time.", "Pool",
    "xpu", "mps", "help(", "hub",
)  # fmt: skip


@dataclass(frozen=True)
class Example:
    """The statements that one docstring shows, and the names that they begin with."""

    name: str
    statements: tuple[str, ...]
    module: types.ModuleType = field(repr=False)

    def names(self) -> dict[str, Any]:
        torch.manual_seed(1)
        given = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "__name__": "__main__"}
        return vars(self.module) | given

    def calls(self, judge: Callable[[Call], None]) -> None:
        """Runs the statements in turn; `judge` is given those that call something before. A failure is the end."""
        names = self.names()
        with torch.set_grad_enabled(True):  # an example switches gradients off
            for at, statement in enumerate(self.statements):
                if any(word in statement for word in FORBIDDEN):
                    return
                try:
                    code = compile(statement, f"<{self.name}>", "exec")
                except SyntaxError:  # not all lines begin as a doctest wants it
                    return
                call = call_of(f"<{self.name}, statement {at}>", statement, names)
                if call is not None:
                    judge(call)
                try:
                    exec(code, names)
                except Exception:  # documentation that is old, or shows an error
                    return


@dataclass(frozen=True)
class Call:
    """One statement as a function of the values that it names."""

    text: str
    function: Callable[..., Any] = field(repr=False)
    values: dict[str, Any] = field(repr=False)

    def run(self, function: Callable[..., Any], seed: int = 7) -> tuple[Any, dict[str, Any]]:
        """The results and the values after the call, which is given copies of them."""
        given = {name: copy.deepcopy(value) for name, value in self.values.items()}
        torch.manual_seed(seed)
        return function(**given), given


def call_of(file: str, statement: str, names: dict[str, Any]) -> Call | None:
    """A statement that is one expression, or assigns one, as a function; None where it calls nothing."""
    body = ast.parse(statement).body
    if len(body) != 1 or not isinstance(body[0], (ast.Expr, ast.Assign)):
        return None
    expression = body[0].value
    inside = list(ast.walk(expression))
    is_plain = not any(isinstance(node, (ast.NamedExpr, ast.Lambda, ast.Await, ast.Yield)) for node in inside)
    if not is_plain or not any(isinstance(node, ast.Call) for node in inside):
        return None
    read = sorted({node.id for node in inside if isinstance(node, ast.Name) and node.id in names})
    values = {name: names[name] for name in read if not _is_code(names[name])}
    source = f"def example({', '.join(values)}):\n    return ({ast.unparse(expression)})\n"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    # Dynamo keeps a compiled function, and with it the scope: tensors in there were gigabytes
    scope = {name: value for name, value in names.items() if _is_code(value) or name.startswith("__")}
    exec(compile(source, file, "exec"), scope)
    return Call(statement.strip(), scope["example"], values)


def _is_code(value: object) -> bool:
    return isinstance(value, (types.ModuleType, type)) or inspect.isroutine(value)


def examples() -> Iterator[Example]:
    """Every docstring of torch's public modules with an example, once."""
    seen: set[str] = set()
    for module in _modules():
        for name, value in _documented(module):
            text = getattr(value, "__doc__", None)
            if not isinstance(text, str) or ">>>" not in text or text in seen:
                continue
            seen.add(text)
            statements = tuple(_statements(text))
            if statements:
                yield Example(name, statements, module)


def _modules() -> Iterator[types.ModuleType]:
    yield torch
    for info in pkgutil.walk_packages(torch.__path__, "torch.", onerror=lambda name: None):
        short = info.name.removeprefix("torch.")
        if "_" in {part[0] for part in short.split(".")} or short.startswith(LEFT_OUT):
            continue
        try:
            yield importlib.import_module(info.name)
        except Exception:  # needs what is not installed
            continue


def _documented(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    for name, value in sorted(vars(module).items()):
        yield f"{module.__name__}.{name}", value
        if inspect.isclass(value) and value.__module__.startswith("torch"):
            yield from ((f"{module.__name__}.{name}.{member}", one) for member, one in vars(value).items())
    if module is torch:
        yield from ((f"Tensor.{name}", getattr(torch.Tensor, name, None)) for name in dir(torch.Tensor))


def _statements(text: str) -> Iterator[str]:
    for one in (text, inspect.cleandoc(text)):
        try:
            yield from (example.source for example in doctest.DocTestParser().get_examples(one))
        except ValueError:  # the columns of an example do not agree
            continue
        return
