"""Prototypes as data."""

from __future__ import annotations

import pytest

from air_geir import prototypes
from air_geir.errors import PrototypeError


def test_every_row_of_every_table_parses_and_prints_itself() -> None:
    rows = [prototypes.get(name) for name in prototypes.all_types()]
    assert len(rows) > 1000
    assert all(prototypes.parse(str(p)) == p for p in rows)


def test_every_row_belongs_to_one_family() -> None:
    assert prototypes.family("MatMul") == "matmul"
    assert prototypes.family("SoftmaxV2") == "normalization"
    assert prototypes.family("NoSuchType") is None


def test_registering_again_is_fine_and_contradicting_is_refused() -> None:
    row = "MyOwnOperator(x, bias?) -> (y, z*) {alpha: float = 1.0; axes: ints}"
    first = prototypes.register(row)
    assert prototypes.register(row) == first
    with pytest.raises(PrototypeError, match="already described differently"):
        prototypes.register("MyOwnOperator(x) -> y")
    with pytest.raises(PrototypeError, match="already described differently"):
        prototypes.register("MatMul(x) -> y")


@pytest.mark.parametrize("row", ["", "Op", "Op(x)", "Op(x y) -> z", "Op(x) -> y {a int}", "Op(x!) -> y"])
def test_a_malformed_row_is_refused(row: str) -> None:
    with pytest.raises(PrototypeError):
        prototypes.parse(row)


def test_in_place_operators_are_known_by_their_names() -> None:
    assert prototypes.get("Assign").refs == {"ref": "ref"}
    assert prototypes.get("ScatterNdUpdate").refs == {"var": "var"}
    assert prototypes.get("Add").refs == {}
