"""The devices that tests run on: the CPU, and the accelerator of this machine, an NPU (or air-sim) or a CUDA device.

A test that takes `device` runs on the CPU and on the accelerator, one that takes `accelerator` on that alone. A
`conftest.py` has two hooks for it, which import this module, and torch, only where tests are collected:

    def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
        from air_graph.testing import devices

        devices.spread(metafunc)

    def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
        from air_graph.testing import devices

        devices.skip_absent(items)

What runs on an accelerator is marked `accelerator`. What needs an NPU is marked `npu` with the reason,
`pytest.mark.npu("only CANN limits cores")`, and skipped with it elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

import torch

if TYPE_CHECKING:
    import pytest

Kind = Literal["npu", "cuda"]

ACCELERATORS: Final[tuple[Kind, ...]] = ("npu", "cuda")
#: Stands where there is no accelerator: sessions without a device leave it out by `-m "not npu"`.
ABSENT: Final[Kind] = "npu"


def accelerator() -> Kind | None:
    """The kind of accelerator that torch has here; None where there is only the CPU."""
    return next((kind for kind in ACCELERATORS if _usable(kind)), None)


def spread(metafunc: pytest.Metafunc) -> None:
    """Makes a test that takes `device` or `accelerator` one for each of them, unless it names its own."""
    import pytest

    kind = accelerator() or ABSENT
    marks = [pytest.mark.accelerator, *([pytest.mark.npu] if kind == "npu" else [])]
    here = pytest.param(kind, marks=marks)
    for name, devices in (("device", ["cpu", here]), ("accelerator", [here])):
        if name in metafunc.fixturenames and name not in _named(metafunc):
            metafunc.parametrize(name, devices)


def skip_absent(items: Sequence[pytest.Item]) -> None:
    """Skips what needs an NPU where there is none, with the reason that the test gives."""
    import pytest

    if accelerator() == "npu":
        return
    for item in items:
        if mark := item.get_closest_marker("npu"):
            item.add_marker(pytest.mark.skip(reason=_absent(mark, item.get_closest_marker("accelerator"))))


def _absent(npu: pytest.Mark, any_accelerator: pytest.Mark | None) -> str:
    if any_accelerator:
        return "needs an accelerator: an NPU, air-sim (--sim) or a CUDA device"
    return "needs an NPU, or air-sim (--sim)" + "".join(f": {why}" for why in npu.args)


def _usable(kind: Kind) -> bool:
    module = getattr(torch, kind, None)
    return module is not None and bool(module.is_available())


def _named(metafunc: pytest.Metafunc) -> set[str]:
    """The arguments that the test is parametrized by itself."""
    names: set[str] = set()
    for mark in metafunc.definition.iter_markers("parametrize"):
        given = mark.args[0] if mark.args else mark.kwargs["argnames"]
        names.update(given.replace(" ", "").split(",") if isinstance(given, str) else given)
    return names
