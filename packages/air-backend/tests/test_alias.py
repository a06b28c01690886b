"""`import torchair` means AIR after `install()`, and what AIR does not have is an error that says so."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator

import pytest

import air_backend
from air_backend import _alias


@pytest.fixture(autouse=True)
def aliased() -> Iterator[None]:
    sys.modules["torchair"] = types.ModuleType("torchair")
    sys.modules["torchair.scope"] = types.ModuleType("torchair.scope")
    _alias.install_as_torchair()
    yield
    _alias.uninstall()


@pytest.mark.parametrize(
    ("foreign", "ours"),
    [
        ("torchair", "air_backend"),
        ("torchair.scope", "air_backend.scope"),
        ("torchair.ops", "air_backend.ops"),
        ("torchair.configs.compiler_config", "air_backend.configs.compiler_config"),
        ("torchair.core.utils", "air_backend.core.utils"),
    ],
)
def test_a_foreign_module_is_ours_although_another_torchair_was_imported(foreign: str, ours: str) -> None:
    spec = importlib.import_module(ours).__spec__
    assert importlib.import_module(foreign) is sys.modules[ours]
    assert sys.modules[ours].__spec__ is spec


def test_attributes_of_the_foreign_name_are_ours() -> None:
    torchair = importlib.import_module("torchair")
    assert torchair.get_npu_backend is air_backend.get_npu_backend
    assert torchair.configs.compiler_config.CompilerConfig is air_backend.CompilerConfig


def test_a_module_air_does_not_have_is_an_error_that_names_it() -> None:
    with pytest.raises(
        ModuleNotFoundError, match=r"AIR stands in for torchair and has no module 'torchair\.patterns'"
    ):
        importlib.import_module("torchair.patterns")


def test_uninstall_forgets_the_foreign_name() -> None:
    importlib.import_module("torchair")
    _alias.uninstall()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("torchair")
    _alias.install_as_torchair()
