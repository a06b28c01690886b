"""Lets torch's minifier work on graphs of this backend: the scripts that torch writes compile with AIR.

TORCHDYNAMO_REPRO_AFTER=aot TORCHDYNAMO_REPRO_LEVEL=4 python model.py
python torch_compile_debug/run_*/minifier/minifier_launcher.py      # leaves the smallest wrong graph: repro.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from air_backend import _backend, _minifier
from air_backend._compilation import Compilation
from air_config import CompilerConfig

__all__ = ["install"]


def install(options: str) -> None:
    """Makes the script that calls it compile with AIR. `options` is a configuration as JSON."""
    from torch._inductor import compile_fx as inductor

    config = CompilerConfig.from_json(options)
    compiler = Compilation(config).compiler("inference")

    def compile_fx_inner(gm: fx.GraphModule, example_inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
        mode = detect_fake_mode(example_inputs) or FakeTensorMode(allow_non_fake_inputs=True)
        FakeTensorProp(gm, mode).propagate(
            *example_inputs
        )  # torch's trace of real tensors has a mode for each value
        run: Callable[..., Any] = compiler(gm, example_inputs)
        return run

    vars(inductor)["compile_fx_inner"] = compile_fx_inner  # where the scripts that torch writes find it
    _backend.air.config = config  # what `backend="air"` means in a script about a graph of Dynamo
    _minifier.begin_with_install(config)
