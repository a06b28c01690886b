"""Tests of max-autotune on an NPU run through each engine of a device: all but the extension in the slow session.

A test may take `device_engine`, the name. Modules are listed here; of their tests those run again that are marked
`npu` and are not of reduce-overhead.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import pytest

EXTENSION: Final = "torchair_extension"
OTHERS: Final = ("ge_session", "atc")
MODULES: Final = frozenset(
    {
        "test_classes_of_tensors", "test_compiled_optimizers", "test_control_flow", "test_custom_operators",
        "test_experts", "test_fused_kernels", "test_hidden_writes", "test_host_memory", "test_kept_outputs",
        "test_layouts_on_npu", "test_model_families", "test_models", "test_nasty_graphs", "test_npu_ops_in_engine",
        "test_numbers", "test_pieces", "test_results_in_memory", "test_sequences", "test_views_on_npu",
    }
)  # fmt: skip

SAMPLE: Final = frozenset({"test_S04_decoding_on_the_graph_engine_writes_the_cache_in_place"})
"""Tests that run through every engine in the usual session, too."""


@pytest.fixture(autouse=True)
def device_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The engine that `auto` takes for NPU tensors in this test."""
    name: str = getattr(request, "param", EXTENSION)
    if name != EXTENSION:
        from air_geir import _engines

        monkeypatch.setitem(_engines._BY_DEVICE, "npu", (name,))
    return name


def spread(metafunc: pytest.Metafunc) -> None:
    """Makes a test of these modules one for each engine."""
    if metafunc.definition.path.stem in MODULES:
        usual = pytest.param(EXTENSION, id=pytest.HIDDEN_PARAM)
        marks = () if metafunc.function.__name__ in SAMPLE else (pytest.mark.slow,)
        others = (pytest.param(name, marks=marks) for name in OTHERS)
        metafunc.parametrize("device_engine", [usual, *others], indirect=True)


def drop(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what would be the same test again."""
    again = [item for item in items if not _concerns(item)]
    config.hook.pytest_deselected(items=again)
    items[:] = [item for item in items if _concerns(item)]


def _concerns(item: pytest.Item) -> bool:
    """Whether the engine of an NPU is anything to this test."""
    callspec = getattr(item, "callspec", None)
    drawn = {} if callspec is None else callspec.params
    if drawn.get("device_engine", EXTENSION) == EXTENSION:
        return True
    return item.get_closest_marker("npu") is not None and "reduce-overhead" not in drawn.values()


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
