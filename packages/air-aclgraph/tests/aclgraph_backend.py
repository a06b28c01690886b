"""What the tests compile with: AOTAutograd and this package's executor, nothing in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

import air_aclgraph
import air_config
from air_aclgraph import AnyExecutable, Executable, PaddedExecutable, Runtime


def settings(device: str, **options: Any) -> air_config.Settings:
    """Settings of reduce-overhead with options by their dotted path, dots written as two underscores."""
    config = air_config.CompilerConfig()
    config.mode = "reduce-overhead"
    for name, value in options.items():
        *path, last = name.split("__")
        group: Any = config
        for part in path:
            group = getattr(group, part)
        setattr(group, last, value)
    return air_config.resolve(config, air_config.Context(device=device))


class Backend:
    """A `torch.compile` backend that keeps the executables it made."""

    def __init__(self, device: str = "cpu", runtime: Runtime | None = None, **options: Any) -> None:
        self.executables: list[AnyExecutable] = []
        self._settings = settings(device, **options)
        self._runtime = runtime
        self._backend: Callable[..., Any] = aot_autograd(
            fw_compiler=self._compile, inference_compiler=self._compile, keep_inference_input_mutations=True
        )

    def _compile(self, gm: GraphModule, example_inputs: Sequence[Any]) -> Any:
        executable = air_aclgraph.compile_graph(
            gm,
            example_inputs,
            settings=self._settings,
            runtime=self._runtime,
            name=f"graph{len(self.executables)}",
        )
        self.executables.append(executable)
        return executable.boxed_callable()

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any]) -> Any:
        return self._backend(gm, example_inputs)

    @property
    def only(self) -> Executable:
        """The one executable there is."""
        (executable,) = self.executables
        assert isinstance(executable, Executable)
        return executable

    @property
    def padded(self) -> PaddedExecutable:
        """The one executable there is, which pads."""
        (executable,) = self.executables
        assert isinstance(executable, PaddedExecutable)
        return executable


def traced(function: Callable[..., Any], *examples: Any, dynamic: bool = False) -> GraphModule:
    """`function` as a graph of ATen operators with its in-place ones kept."""
    with torch.no_grad():
        return make_fx(function, tracing_mode="symbolic" if dynamic else "fake")(*examples)


def unpadded(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Executable:
    """A graph whose inputs have no buckets, compiled."""
    run = air_aclgraph.compile_graph(gm, example_inputs, **options)
    assert isinstance(run, Executable)
    return run


def executable(
    function: Callable[..., Any],
    *examples: Any,
    device: str = "cpu",
    static: Sequence[int] = (),
    runtime: Runtime | None = None,
    dynamic: bool = False,
    **options: Any,
) -> Executable:
    """`function` as an executable without Dynamo in front."""
    return unpadded(
        traced(function, *examples, dynamic=dynamic),
        examples,
        settings=settings(device, **options),
        runtime=runtime,
        static_inputs=static,
        name=getattr(function, "__name__", "graph"),
    )
