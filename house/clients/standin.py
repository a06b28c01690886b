"""What stands for some insides of TorchAir, for the runs with AIR alone.

AIR has no such insides, and a test that only saves one in `setUp` and puts it back says nothing of them. Here stand
objects for these names, so the rest of the test runs. Two are wired: what a test puts in the place of `_optimize_fx`,
or of `optimize_cat_with_out_tensor`, sees the graph after AIR's passes. A test that puts something in the place of
another one is marked: that it passes shows nothing.
"""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from house.clients import insides
from house.clients.insides import Inside

#: Modules of AIR in which their tests look for insides.
HALF: Final = (
    "torchair",
    "torchair.core",
    "torchair.core.utils",
    "torchair.core._concrete_graph",
    "torchair.configs.compiler_config",
    "torchair.ge",
    "torchair.ge._ge_graph",
    "torchair.ge.attr",
    "torchair.inference",
    "torchair.scope",
    "torchair.ops",
    "torchair.npu_fx_compiler",
    "torchair._ge_concrete_graph",
    "torchair._ge_concrete_graph.fx2ge_converter",
    "torchair._ge_concrete_graph.compat_ir",
    "torchair._ge_concrete_graph.utils",
    "torchair._ge_concrete_graph.supported_declaration",
    "npugraph_ex",
    "npugraph_ex.core",
    "npugraph_ex.core.utils",
    "npugraph_ex.core._concrete_graph",
    "npugraph_ex.configs.compiler_config",
    "npugraph_ex.inference",
    "npugraph_ex.scope",
    "npugraph_ex.ops",
    "npugraph_ex.patterns",
    "npugraph_ex.npu_fx_compiler",
)


class GraphCounter:
    """Numbers of graphs, of which AIR's tags do not depend."""

    @staticmethod
    def set_graph_id(number: int) -> None: ...


class CompiledModel:
    """Where a compiled function is kept."""

    package = "air_backend"

    @classmethod
    def get_cache_bin(
        cls, func: Callable[..., Any], *, config: Any = None, options: Any = None, **where: Any
    ) -> str:
        inference: Any = importlib.import_module(f"{cls.package}.inference")
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
    """A module of insides, with what is given for some of them."""
    module: Any = importlib.import_module(f"{package}.{name}")
    for key, value in contents.items():
        vars(module)[key] = value
    return cast("Inside", module)


def _insides(package: str) -> tuple[Any, Any]:
    """Fills the modules of one package; gives the two with a name that is wired."""
    compiler: Any = _inside(package, "npu_fx_compiler", _optimize_fx=_optimize_fx)
    _inside(package, "_acl_concrete_graph.replace_stream_event", GraphCounter=GraphCounter)
    cat = _inside(
        package,
        "_acl_concrete_graph.cat_optimization",
        optimize_cat_with_out_tensor=optimize_cat_with_out_tensor,
    )
    cat.wired = frozenset({"optimize_cat_with_out_tensor"})
    _inside(package, "_acl_concrete_graph.static_kernel", static_compile=_static_compile)
    kept = type("CompiledModel", (CompiledModel,), {"package": insides.PACKAGES[package]})
    _inside(package, "inference._cache_compiler", CompiledModel=kept, ModelCacheSaver=ModelCacheSaver)
    return cat, compiler


def install() -> None:
    """Puts the stand-ins in place; AIR stands in already."""
    work: Any = importlib.import_module("air_backend._compile")._Work
    passes = work._optimise
    insides.install(HALF)
    wired = [_insides(package) for package in insides.PACKAGES]
    insides.replaced.clear()

    def optimise(self: Any, part: Any, plan: Any) -> Any:
        found = []

        def run() -> Any:
            found.append(passes(self, part, plan))
            return part.gm

        _running.append(run)
        for cat, _ in wired:
            if cat.optimize_cat_with_out_tensor is not optimize_cat_with_out_tensor:
                cat.optimize_cat_with_out_tensor(part.gm, self.config)
        if not found:
            _running.pop()()
        for _, compiler in wired:
            compiler._optimize_fx(part.gm, self.config, self.observer)
        return found[0]

    work._optimise = optimise
