"""`device_engine`: tests that take it run through each engine of a device, all but the extension marked `slow`."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

EXTENSION = "torchair_extension"
OTHERS = ("ge_session", "atc")


@pytest.fixture(params=[EXTENSION, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def device_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The engine that `auto` takes for NPU tensors in this test."""
    from air_geir import _engines

    name: str = request.param
    monkeypatch.setitem(_engines._BY_DEVICE, "npu", (name,))
    return name


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """What an engine refuses by name is no failure of its: `atc` takes no sizes that values decide, for one."""
    try:
        return (yield)
    except Exception as error:
        reason = refused(error, str(pyfuncitem.funcargs.get("device_engine")))
        if reason is None:
            raise
        pytest.skip(f"refused by name: {reason}")


def refused(error: BaseException | None, engine: str) -> str | None:
    """The words of an engine that says it cannot do what was asked, somewhere below this error."""
    from air_geir.errors import EngineError, OptionError

    while error is not None:
        if isinstance(error, (EngineError, OptionError)) and error.what.startswith(f"engine {engine} "):
            return error.what
        error = error.__cause__ or error.__context__
    return None
