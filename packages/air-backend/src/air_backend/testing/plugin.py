"""The pytest plugin: fixtures for the grounds on which a model is tested. torch is imported by the first that is used.

    pytest --air-ground cpu          the host runtime and the reference engine
    pytest --air-ground npu          an NPU, or air-sim with `--sim`

Without the option it is the best that this machine has: NPU, CUDA, CPU. A ground that is not there skips its tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from air_backend._ground import Ground

MODES: Final = ("reduce-overhead", "max-autotune")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --air-ground."""
    parser.getgroup("air").addoption(
        "--air-ground",
        choices=("best", "cpu", "cuda", "npu"),
        default="best",
        help="the ground of the fixtures air_ground and air_mode (best)",
    )


@pytest.fixture(scope="session")
def air_ground(request: pytest.FixtureRequest) -> Ground:
    """The ground to test on: `.device`, and `.modes`, the modes that serve it."""
    from air_backend._ground import best_ground, ground_named

    wanted = request.config.getoption("--air-ground")
    found = best_ground() if wanted == "best" else ground_named(wanted)
    if found is None:
        pytest.skip(f"there is no {wanted} here (--air-ground)")
    return found


@pytest.fixture(params=MODES)
def air_mode(request: pytest.FixtureRequest, air_ground: Ground) -> Iterator[str]:
    """Each mode of the ground in turn, with a fresh Dynamo and nothing captured before and after."""
    import torch._dynamo

    if request.param not in air_ground.modes:
        pytest.skip(f"{request.param} does not serve {air_ground.device.type} tensors")
    torch._dynamo.reset()
    yield request.param
    torch._dynamo.reset()
