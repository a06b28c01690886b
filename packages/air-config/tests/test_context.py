"""The context: products by chip, versions in order, and unknowns that stay unknown."""

from __future__ import annotations

from typing import Any

import pytest

from air_config import Context, WrongType, WrongValue, product_of
from air_config._context import cann_version


@pytest.mark.parametrize(
    ("soc", "product"),
    [
        ("Ascend910B1", "A2"),
        ("Ascend910B3", "A2"),
        ("ascend910b4-1", "A2"),
        ("Ascend910_9391", "A3"),
        ("Ascend910_9362", "A3"),
        ("Ascend910A", "other"),
        ("Ascend910_9589", "other"),
        ("Ascend310P3", "other"),
        ("Ascend950", "other"),
        ("", "other"),
    ],
)
def test_S29_a_chip_belongs_to_a_product_series(soc: str, product: str) -> None:
    assert product_of(soc) == product
    assert Context(soc=soc).product == product


def test_versions_of_cann_are_in_order() -> None:
    texts = ["7.0.0", "8.2.RC1", "8.3.RC1", "8.3.0", "8.5.0", "8.5.1", "9.0.0", "9.1.0", "10.0.0"]
    assert [cann_version(text) for text in texts] == sorted(cann_version(text) for text in texts)
    assert cann_version("9.0.0-beta.2") == cann_version("9.0.0")
    assert cann_version("8.5") == cann_version("8.5.0")
    assert cann_version("8.3.rc1") == cann_version("8.3.RC1")


def test_an_unknown_version_is_below_nothing() -> None:
    assert not Context().cann_below("99.0.0")
    assert Context(cann="8.2.RC1").cann_below("8.3.RC1")
    assert not Context(cann="8.3.RC1").cann_below("8.3.RC1")


@pytest.mark.parametrize("text", ["", "eight", "8", "v8.5"])
def test_what_is_no_version_is_an_error(text: str) -> None:
    with pytest.raises(WrongValue, match="a version of CANN"):
        cann_version(text)
    with pytest.raises(WrongValue, match="a version of CANN"):
        Context(cann=text)


def test_a_device_that_air_does_not_serve_is_an_error() -> None:
    with pytest.raises(WrongValue, match='"npu", "cuda" or "cpu"'):
        Context(device="tpu")


def test_the_environment_can_be_given() -> None:
    assert Context(env={"A": "b"}).env == {"A": "b"}
    assert Context(env={}).env == {}


@pytest.mark.parametrize("fact", ["soc", "cann"])
def test_names_and_versions_are_text(fact: str) -> None:
    wrong: Any = {fact: 8}
    with pytest.raises(WrongType, match=f"(?s)'{fact}'.*a string, or None"):
        Context(**wrong)
