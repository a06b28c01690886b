"""Each test starts with a fresh Dynamo; one that takes a `device` runs on the CPU and on the accelerator.

What max-autotune does on an NPU is tested through each engine of a device: `engines_of_devices.py`.

torch is imported where it is used: the process that hands the tests out to workers reads this file too, and runs none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from air_backend import demo

sys.path.insert(0, str(Path(__file__).parent))  # programs next to the tests, whatever the import mode

import engines_of_devices
from engines_of_devices import device_engine, pytest_pyfunc_call  # noqa: F401


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fuzz-programs",
        type=int,
        default=24,
        help="how many random programs each mode runs (a tenth on an NPU)",
    )
    parser.addoption("--fuzz-seed", type=int, default=0, help="the first of their seeds")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    from air_graph.testing import devices

    engines_of_devices.spread(metafunc)
    devices.spread(metafunc)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    from air_graph.testing import devices

    engines_of_devices.drop(config, items)
    devices.skip_absent(items)
    for item in items:
        parameters = (
            item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        )
        if {"max-autotune", "cuda"} <= {value for value in parameters.values() if isinstance(value, str)}:
            item.add_marker(pytest.mark.skip(reason="max-autotune does not serve CUDA tensors"))


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    import torch._dynamo

    from air_backend import _records

    torch._dynamo.reset()
    _records._kept.clear()  # those of `compile_fx` outlive a reset
    yield
    torch._dynamo.reset()


@pytest.fixture(scope="session")
def host_demo() -> demo.DemoReport:
    """The demo on CPU tensors, with half of the layers of `air demo`; it takes long enough to be run once."""
    import torch

    from air_backend import demo
    from air_backend._ground import Ground

    size = demo.LlamaSize(layers=demo.LlamaSize().layers // 2)
    return demo.run_demo(Ground(torch.device("cpu"), ("reduce-overhead", "max-autotune"), ""), size)


@pytest.fixture
def refusing(accelerator: str) -> Iterator[str]:
    """The accelerator, where a call that it refuses does not keep it from the next one."""
    air_sim = pytest.importorskip("air_sim")
    if air_sim.active() is None:
        pytest.skip("a device refuses everything after an error")
    air_sim.change(sticky=False)
    yield accelerator
    air_sim.change(sticky=True)
    air_sim.recover()


@pytest.fixture
def in_order_again() -> Iterator[None]:
    """For tests that let air-sim delay what the device does: afterwards it delays nothing."""
    import torch

    air_sim = pytest.importorskip("air_sim")
    if air_sim.active() is None:
        pytest.skip("air-sim delays what the device does")
    first = torch.accelerator.current_stream()
    yield
    torch.accelerator.set_stream(first)
    air_sim.change(seed=0, delay_us=0, launch_delay_us=0)
