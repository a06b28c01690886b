"""Insides of TorchAir that its tests touch on the way to what they are about, for the runs with AIR alone.

AIR has no such insides, and a test that only saves one in `setUp` and puts it back says nothing of them. Here stand
objects for these names, so the rest of the test runs. Two are wired: what a test puts in the place of `_optimize_fx`,
or of `optimize_cat_with_out_tensor`, sees the graph after AIR's passes. A test that puts something in the place of
another one is marked: that it passes shows nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

replaced: Final[set[str]] = set()
"""Names that were given something else, and that nothing of AIR calls."""

#: Their tests count calls of it in a way that cannot fail.
UNJUDGED: Final = frozenset({"static_compile"})
PACKAGES: Final = {"torchair": "air_backend", "npugraph_ex": "air_backend.npugraph_ex"}


class Inside(ModuleType):
    """A module of stand-ins."""

    wired: frozenset[str] = frozenset()

    def __setattr__(self, name: str, value: Any) -> None:
        before = vars(self).get(name)
        if before is not None and before is not value and name not in self.wired | UNJUDGED:
            replaced.add(f"{self.__name__}.{name}")
        super().__setattr__(name, value)


class _Watched(type):
    """A class whose methods are noticed when they are replaced."""

    def __setattr__(cls, name: str, value: Any) -> None:
        if vars(cls).get(name) is not value:
            replaced.add(f"{cls.__name__}.{name}")
        super().__setattr__(name, value)


class GraphCounter:
    """Numbers of graphs, of which AIR's tags do not depend."""

    @staticmethod
    def set_graph_id(number: int) -> None: ...


class CompiledModel:
    """Where a compiled function is kept."""

    @staticmethod
    def get_cache_bin(
        func: Callable[..., Any], *, config: Any = None, options: Any = None, **where: Any
    ) -> str:
        inference: Any = importlib.import_module("air_backend.inference")
        kept = inference.cache_compile(func, config=config, options=options, **where)
        return str(kept.folder / "compiled_module")


class ModelCacheSaver:
    """Removes what is kept."""

    @staticmethod
    def remove_cache(folder: str | Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)


def _optimize_fx(gm: Any, config: Any = None, observer: Any = None) -> Any:
    """The graph after AIR's passes, as it is."""
    return gm


_running: Final[list[Callable[[], Any]]] = []


def optimize_cat_with_out_tensor(gm: Any, config: Any = None) -> Any:
    """AIR's passes, all of them."""
    return _running.pop()()


def _static_compile(*_: Any, **__: Any) -> None: ...


def _inside(package: str, name: str, **contents: Any) -> Inside:
    """Puts a module of stand-ins where `import package.name` finds it."""
    module = Inside(f"{package}.{name}")
    for key, value in contents.items():
        setattr(module, key, value)
    parent, _, child = module.__name__.rpartition(".")
    sys.modules[module.__name__] = module
    setattr(importlib.import_module(parent), child, module)
    return module


def _insides(package: str) -> tuple[Any, Any]:
    """Puts the modules of one package in place; the two with a name that is wired."""
    if package == "torchair" and importlib.util.find_spec("air_backend.npu_fx_compiler") is None:
        compiler: Any = _inside(package, "npu_fx_compiler")
    else:
        compiler = importlib.import_module(f"{package}.npu_fx_compiler")
    compiler._optimize_fx = _optimize_fx
    if isinstance(compiler, Inside):
        compiler.wired = frozenset({"_optimize_fx"})
    acl = _inside(package, "_acl_concrete_graph")
    acl.__path__ = []
    _inside(package, "_acl_concrete_graph.replace_stream_event", GraphCounter=GraphCounter)
    cat = _inside(
        package,
        "_acl_concrete_graph.cat_optimization",
        optimize_cat_with_out_tensor=optimize_cat_with_out_tensor,
    )
    cat.wired = frozenset({"optimize_cat_with_out_tensor"})
    graph = _Watched("AclConcreteGraph", (), {"__call__": lambda *_: None})
    _inside(package, "_acl_concrete_graph.fx2acl_converter", AclConcreteGraph=graph)
    static = _inside(package, "_acl_concrete_graph.static_kernel", static_compile=_static_compile)
    static.__path__ = []
    _inside(
        package, "inference._cache_compiler", CompiledModel=CompiledModel, ModelCacheSaver=ModelCacheSaver
    )
    return cat, compiler


def install() -> None:
    """Puts the stand-ins in place; AIR stands in already."""
    compile_module: Any = importlib.import_module("air_backend._compile")
    passes = compile_module._optimise
    wired = [_insides(package) for package in PACKAGES]
    replaced.clear()

    def optimise(gm: Any, inputs: Any, settings: Any, config: Any, plan: Any, observer: Any) -> Any:
        found = []

        def run() -> Any:
            found.append(passes(gm, inputs, settings, config, plan, observer))
            return gm

        _running.append(run)
        for cat, _ in wired:
            if cat.optimize_cat_with_out_tensor is not optimize_cat_with_out_tensor:
                cat.optimize_cat_with_out_tensor(gm, config)
        if not found:
            _running.pop()()
        for _, compiler in wired:
            compiler._optimize_fx(gm, config, observer)
        return found[0]

    compile_module._optimise = optimise
