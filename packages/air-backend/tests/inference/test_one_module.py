"""The sources of what was traced are looked up in the module that holds them."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Mapping

import pytest
from torch._dynamo.package import SourceInfo

from air_backend.inference._one_module import make_collections_one


def test_the_source_of_a_mapping_is_found_where_another_module_has_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "collections.abc", types.ModuleType("collections.abc"))
    make_collections_one()
    assert importlib.import_module("collections.abc").Mapping is Mapping
    SourceInfo(inlined_sources=set()).add_code(Mapping.get.__code__)
