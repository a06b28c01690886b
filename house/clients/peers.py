"""PyTorch's own tests of compilation with AIR in the place of torch's backends, from a checkout that the user gives.

Most of these tests hold what a compiled program gives against eager, and ask nothing of the backend but that. A
checkout is seldom of the torch that is installed: names that this torch lacks are stand-ins, statements of a file that
raise are left out, and a test that needs either fails with `aot_eager` as well, and does not count.

The file of Inductor's tests has its programs in `CommonTemplate`, with a call of `self.common(function, inputs)` each.
"""

from __future__ import annotations

import ast
import copy
import importlib
import sys
import unittest
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from unittest import mock

import torch
from torch.utils._pytree import tree_leaves, tree_map

from house.clients.suites import MODES

TORCHS: Final = frozenset({None, "inductor", "eager", "aot_eager", "aot_eager_decomp_partition"})
"""Backends of torch that programs are compiled with where a test asks nothing of them."""
CLOSE: Final = {"float16": 2e-2, "bfloat16": 2e-2, "float32": 1e-4, "complex64": 1e-4, "float64": 1e-6}
"""How far results may be off, relative and absolute; integers not at all."""


def swap(way: str) -> None:
    """From now on `torch.compile` takes `way`, a mode of AIR or a backend, where a test names a backend of torch."""
    compiled, optimized = torch.compile, torch._dynamo.optimize
    ours: Any = "air" if way in MODES else way
    options = {"options": {"mode": way}} if way in MODES else {}

    def compile_(model: Any = None, *args: Any, **given: Any) -> Any:
        if model is None:
            return lambda function: compile_(function, *args, **given)
        if _is_torchs(given.get("backend", "inductor")):
            given = {key: value for key, value in given.items() if key not in ("mode", "options")}
            given |= {"backend": ours, **options}
        return compiled(model, *args, **given)

    def optimize(backend: Any = "inductor", *args: Any, **given: Any) -> Any:
        return optimized(own(way) if _is_torchs(backend) else backend, *args, **given)

    torch.compile = compile_
    torch._dynamo.optimize = optimize


def _is_torchs(backend: Any) -> bool:
    return backend is None or (isinstance(backend, str) and backend in TORCHS)


def own(way: Any) -> Any:
    """The backend of a mode of AIR; any other is one itself."""
    if way not in MODES:
        return way
    air: Any = importlib.import_module("air_backend")
    return air.get_npu_backend(compiler_config=air.CompilerConfig.from_options({"mode": way}))


def load(path: Path, name: str = "peer") -> ModuleType:
    """The module of a test file, with stand-ins for what this torch lacks."""
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__" and not node.level:
            for alias in node.names:
                setattr(module, alias.asname or alias.name, _named(str(node.module), alias.name))
        elif not _is_main(node):
            _run(node, path, module)
    return module


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)


def _named(module: str, name: str) -> Any:
    try:
        found = importlib.import_module(module)
        return getattr(found, name) if hasattr(found, name) else importlib.import_module(f"{module}.{name}")
    except Exception:
        return mock.MagicMock(name=name)


def _run(node: ast.stmt, path: Path, module: ModuleType) -> None:
    try:
        exec(compile(ast.Module([node], []), str(path), "exec"), module.__dict__)
    except (Exception, unittest.SkipTest) as error:
        sys.stderr.write(f"left out of {path.name}: line {node.lineno}: {type(error).__name__}: {error}\n")


def cases(module: ModuleType) -> list[type[unittest.TestCase]]:
    """The classes of tests of a module; of Inductor's, one with its programs."""
    template = getattr(module, "CommonTemplate", None)
    if template is not None:
        members = {key: value for key, value in vars(template).items() if not key.startswith("__")}
        base = getattr(module, "InductorTestCase", None)
        device = device_at_hand()
        given = {
            "device": device,
            "common": staticmethod(judge),
            "is_dtype_supported": lambda self, dtype: device == "cpu" or dtype is not torch.float64,
        }
        for name in ("check_model", "check_model_gpu"):
            setattr(module, name, lambda self, *args, **kwargs: judge(*args, **kwargs))
        kind = base if isinstance(base, type) and issubclass(base, unittest.TestCase) else unittest.TestCase
        return [type("Programs", (kind,), members | given)]
    return [
        found
        for found in vars(module).values()
        if isinstance(found, type)
        and issubclass(found, unittest.TestCase)
        and found.__module__ == module.__name__
    ]


def device_at_hand() -> str:
    """Where Inductor's programs run: a device that is no GPU of its own tests, or the CPU."""
    return "npu" if hasattr(torch, "npu") and torch.npu.is_available() else "cpu"


def judge(
    model: Callable[..., Any],
    example_inputs: Iterable[Any],
    kwargs: dict[str, Any] | None = None,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    check_gradient: bool = False,
    assert_equal: bool = True,
    **_: Any,
) -> None:
    """Compares a compiled call with eager's: results, their types, sizes and strides, and what inputs hold then."""
    torch._dynamo.reset()
    device = device_at_hand()
    inputs = [_moved(value, device) for value in example_inputs]
    (theirs, their_words), (ours, our_words) = (
        (tree_map(twin, inputs), tree_map(twin, kwargs or {})) for _ in range(2)
    )
    if isinstance(model, torch.nn.Module):
        model = model.to(device)
    our_model = copy.deepcopy(model) if isinstance(model, torch.nn.Module) else model
    torch.manual_seed(0)
    try:
        expected = model(*theirs, **their_words)
    except Exception as error:
        raise unittest.SkipTest(f"eager refuses it: {error}") from error
    torch.manual_seed(0)
    found = torch.compile(our_model)(*ours, **our_words)
    if not assert_equal:
        return
    least = max(atol or 0.0, rtol or 0.0)
    same(tree_leaves(expected), tree_leaves(found), least)
    same(tree_leaves(theirs), tree_leaves(ours), least)
    if check_gradient:
        same(_gradients(expected, theirs), _gradients(found, ours), max(least, 1e-3))


def _moved(value: Any, device: str) -> Any:
    """A tensor on the device, as far as it lies on none; a device has no double precision."""
    if device == "cpu" or not isinstance(value, torch.Tensor) or value.dtype is torch.float64:
        return value
    moved = value.detach().to(device) if value.device.type == "cpu" else value
    return moved.requires_grad_(value.requires_grad)


def twin(value: Any) -> Any:
    """A tensor with the same values and strides, in memory of its own."""
    if not isinstance(value, torch.Tensor):
        return value
    plain = value.layout is torch.strided and value.numel() > 0
    copied = torch._prims_common.clone_preserve_strides(value.detach()) if plain else value.detach().clone()
    return copied.requires_grad_(value.requires_grad)


def _gradients(results: Any, inputs: Any) -> list[Any]:
    torch.manual_seed(1)
    ends, leaves = (
        [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        for tree in (results, inputs)
    )
    if not ends or not leaves:
        return []
    return list(torch.autograd.grad(ends, leaves, [torch.rand_like(end) for end in ends], allow_unused=True))


def same(expected: list[Any], found: list[Any], least: float) -> None:
    """Raises an AssertionError that names the first value that differs."""
    assert len(found) == len(expected), f"{len(found)} results for {len(expected)}"
    for at, (theirs, ours) in enumerate(zip(expected, found, strict=True)):
        if not isinstance(theirs, torch.Tensor):
            equal = theirs == ours or (isinstance(theirs, float) and abs(theirs - ours) < 1e-4)
            assert equal or theirs != theirs or callable(theirs), f"result {at}: {ours!r} for {theirs!r}"
            continue
        assert _form(ours) == _form(theirs), f"result {at}: {_form(ours)} for {_form(theirs)}"
        if theirs.layout is torch.strided and not theirs.is_quantized:
            near = max(CLOSE.get(str(theirs.dtype).removeprefix("torch."), 0.0), least)
            wide = torch.float32 if "float8" in str(theirs.dtype) else theirs.dtype
            torch.testing.assert_close(
                ours.detach().to(wide),
                theirs.detach().to(wide),
                rtol=near,
                atol=near,
                equal_nan=True,
                check_stride=False,
            )


def _form(value: Any) -> tuple[object, ...]:
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return (type(value).__name__,)
    seen = (step for size, step in zip(value.shape, value.stride(), strict=True) if size > 1)
    strides = tuple(seen) if value.numel() > 1 else ()
    return (str(value.dtype), tuple(value.shape), strides, value.device.type)
