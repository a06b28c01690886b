"""Registration: what is accepted, what is refused, and what the refusal says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from air_geir import Context, Sample, Value, converts
from air_geir.converters import ConverterError, SampleTensor, find, unregister
from air_geir.errors import ConverterRefuted
from air_geir.proof import check_converter

LIBRARY = torch.library.Library("geir_registry_test", "DEF")
LIBRARY.define("twice(Tensor x, *, float by=2.0) -> Tensor")
LIBRARY.impl("twice", lambda x, *, by=2.0: x * by, "CompositeExplicitAutograd")
LIBRARY.impl("twice", lambda x, *, by=2.0: torch.empty_like(x), "Meta")
TWICE = torch.ops.geir_registry_test.twice.default


@pytest.fixture
def registered() -> Iterator[None]:
    @converts(TWICE, samples=[Sample(SampleTensor(torch.float32, (2, 3)), by=3.0)])
    def twice(ctx: Context, x: Value, *, by: float = 2.0) -> Value:
        """twice(Tensor x, *, float by=2.0) -> Tensor"""
        return ctx.emit("Muls", x, value=by)

    yield
    unregister(TWICE)


@pytest.mark.usefixtures("registered")
def test_a_user_proves_a_converter_like_those_of_the_package() -> None:
    assert check_converter(TWICE) == 1


@pytest.mark.usefixtures("registered")
def test_where_a_converter_is_wrong_the_operator_and_the_sample_are_named() -> None:
    right, wrong = Sample(SampleTensor(torch.float32, (2,))), Sample(torch.tensor([float("nan")]), by=0.0)

    def other(ctx: Context, x: Value, *, by: float = 2.0) -> Value:
        return ctx.emit("Muls", x, value=by or 1.0)

    unregister(TWICE)
    converts(TWICE)(other)
    assert check_converter(TWICE, [right]) == 1
    with pytest.raises(ConverterRefuted, match=r"twice\.default is wrong in sample 2: .*by.: 0\.0") as told:
        check_converter(TWICE, [right, Sample(torch.ones(1), by=0.0), wrong])
    assert "not close" in str(told.value)
    assert isinstance(told.value, AssertionError)


@pytest.mark.usefixtures("registered")
def test_a_converter_without_samples_is_not_proven() -> None:
    with pytest.raises(ConverterError, match="has no samples") as told:
        check_converter(TWICE, [])
    assert "samples=" in told.value.advice


@pytest.mark.usefixtures("registered")
def test_a_second_converter_is_refused_and_the_first_is_named() -> None:
    with pytest.raises(ConverterError, match=r"already has a converter.*test_registry"):
        converts(TWICE)(lambda ctx, x, *, by=2.0: x)


def test_a_converter_whose_parameters_drift_from_the_schema_is_refused() -> None:
    with pytest.raises(ConverterError) as caught:
        converts(TWICE)(lambda ctx, x, factor: x)
    assert "x, by" in str(caught.value)
    assert find(TWICE) is None


def test_a_converter_can_be_registered_before_its_library_is_loaded() -> None:
    converts("geir_later.thing.default")(lambda ctx, anything: anything)
    assert find("geir_later::thing.default") is not None
    unregister("geir_later.thing.default")


def test_nothing_is_lost_when_one_overload_does_not_exist() -> None:
    """One missing overload costs one registration, not those that follow it in the file."""
    converts("aten.no_such_operator.default")(lambda ctx, x: x)
    assert find("aten.full.default") is not None
    assert find("aten.select.int") is not None
    unregister("aten.no_such_operator.default")


def test_forgetting_a_converter_that_was_never_there_is_an_error() -> None:
    with pytest.raises(ConverterError, match="has no converter"):
        unregister("aten.never_there.default")
