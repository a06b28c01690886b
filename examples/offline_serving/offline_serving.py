"""A model served without torch.compile in the process: exported, compiled by atc, loaded by pyACL.

    air-sim run python examples/offline_serving/offline_serving.py

The first process makes the files. Then two services start, one after the other: the first loads the offline model, the
second has a compilation that `cache_compile` kept. Each says how long it took from its first line to its first answer.
"""

from __future__ import annotations

import time

STARTED = time.perf_counter()

import os  # noqa: E402  # the clock runs from the first line
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

ROWS, WIDTH = 4, 64


class Classifier(nn.Module):
    """What is served."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(6)))
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.layers(x)).softmax(-1)
        return out


def make(folder: Path) -> None:
    """What happens once, where the model is built: a file for the device."""
    from air_backend import compile_air, dynamo_export

    model = Classifier().eval()
    air = dynamo_export(
        torch.randn(ROWS, WIDTH), model=model, export_path=folder, export_name="classifier"
    ).model
    om = compile_air(air, folder / "classifier")
    print(f"atc made {om.name} of {air.name}")


def offline(folder: Path) -> Tensor:
    """A service that loads the offline model: no Dynamo, no converter, no torch_npu."""
    from air_backend import load_om

    model = load_om(folder / "classifier.om")
    (answer,) = model(torch.ones(ROWS, WIDTH))
    return answer


def cached(folder: Path) -> Tensor:
    """A service that compiles, with all that `cache_compile` keeps."""
    from air_backend import CompilerConfig
    from air_backend.inference import cache_compile

    config = CompilerConfig()
    config.mode = "max-autotune"
    model: Any = Classifier().eval().to("npu")
    call = cache_compile(model.forward, config=config, cache_dir=str(folder / "cache"), ge_cache=True)
    with torch.no_grad():
        answer: Tensor = call(torch.ones(ROWS, WIDTH, device="npu"))
    return answer.cpu()


SERVICES = {"offline": offline, "cached": cached}


def serve(name: str, folder: Path) -> None:
    answer = SERVICES[name](folder)
    took = time.perf_counter() - STARTED
    compiles = "torch._dynamo" in sys.modules
    with torch.no_grad():
        torch.testing.assert_close(answer, Classifier().eval()(torch.ones(ROWS, WIDTH)), atol=1e-5, rtol=1e-4)
    print(f"{name}: what eager computes, after {took:.2f} s; Dynamo {'is' if compiles else 'is not'} loaded")


def start(name: str, folder: Path) -> None:
    """A process of its own; the offline service leaves torch_npu where it is."""
    own = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"} if name == "offline" else {}
    subprocess.run(
        [sys.executable, "-W", "ignore", __file__, name, str(folder)], env=os.environ | own, check=True
    )


def main() -> None:
    if len(sys.argv) > 1:
        serve(sys.argv[1], Path(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        sys.stdout.flush()
        for name in ("cached", "offline", "cached"):  # the first writes what the last reads
            start(name, Path(folder))


if __name__ == "__main__":
    main()
