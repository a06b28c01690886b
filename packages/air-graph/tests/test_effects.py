"""What operators do to memory, judged by running them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._ops import OpOverload

from air_graph import (
    effects_of,
    find_operator,
    hidden_writes,
    register_hidden_writes,
    register_may_return_argument,
    written_values,
)
from air_graph._effects import _hidden_writes, _may_return_argument
from air_graph.errors import BadRegistration

aten = torch.ops.aten


@pytest.fixture
def tables() -> Iterator[None]:
    """Puts the tables back as they were."""
    kept = dict(_hidden_writes), set(_may_return_argument)
    yield
    _hidden_writes.clear()
    _hidden_writes.update(kept[0])
    _may_return_argument.intersection_update(kept[1])
    effects_of.cache_clear()


def used(op: OpOverload, name: str) -> tuple[bool, bool, bool]:
    effect = effects_of(op).by_key[name]
    return effect.reads, effect.writes, bool(effect.aliases)


def test_a_functional_operator_only_reads() -> None:
    assert effects_of(aten.add.Tensor).is_plain
    assert used(aten.add.Tensor, "self") == (True, False, False)
    assert effects_of(aten.add.Tensor).returns == (frozenset(),)


def test_an_in_place_operator_reads_and_writes_and_gives_back_the_same_memory() -> None:
    effects = effects_of(aten.add_.Tensor)
    assert used(aten.add_.Tensor, "self") == (True, True, True)
    assert effects.returns == (effects.by_key[0].aliases,)
    assert not effects.hides


@pytest.mark.parametrize(
    "op", [aten.copy_.default, aten.zero_.default, aten.uniform_.default, aten._foreach_copy_.default]
)
def test_what_is_overwritten_is_not_read(op: OpOverload) -> None:
    assert used(op, "self")[:2] == (False, True)


def test_an_out_argument_is_overwritten() -> None:
    assert used(aten.add.out, "out")[:2] == (False, True)


def test_a_view_touches_nothing() -> None:
    assert used(aten.view.default, "self") == (False, False, True)
    assert used(aten.split.Tensor, "self") == (False, False, True)
    assert used(aten.sym_size.int, "self") == (False, False, False)


def test_an_operator_that_may_copy_reads_and_may_share() -> None:
    effects = effects_of(aten.reshape.default)
    assert effects.may_copy
    assert used(aten.reshape.default, "self") == (True, False, True)


def test_views_that_the_schema_does_not_mention_are_known() -> None:
    x = torch.ones(4)
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        (aten._unsafe_view.default, ([2, 2],)),
        (aten._reshape_alias.default, ([2, 2], [2, 1])),
        (aten.unsafe_split.Tensor, (2,)),
        (aten.unsafe_split_with_sizes.default, ([1, 3],)),
    ]
    for op, args in calls:
        result = op(x, *args)
        for one in result if isinstance(result, (list, tuple)) else (result,):
            assert one.untyped_storage()._cdata == x.untyped_storage()._cdata
        assert used(op, "self")[2]
        assert effects_of(op).returns[0] == effects_of(op).by_key["self"].aliases


def test_what_a_call_writes_are_the_values_of_its_written_arguments() -> None:
    out = torch.empty(2)
    assert written_values(aten.add.out, (1, 2), {"out": out}) == [out]
    assert written_values(aten.add_.Tensor, (out, 2), {}) == [out]
    assert written_values(aten.add.Tensor, (out, 2), {}) == []


def test_a_callable_without_a_schema_may_do_anything_and_arithmetic_nothing() -> None:
    import operator

    assert effects_of(print).opaque
    assert effects_of(operator.add).is_plain
    assert effects_of(torch.sym_max).is_plain


def test_registered_writes_count_like_those_of_the_schema(tables: None) -> None:
    register_hidden_writes("aten::neg", ("self",))
    assert used(aten.neg.default, "self")[:2] == (True, True)
    assert effects_of(aten.neg.default).hides_writes
    assert hidden_writes(aten.neg.default) == ("self",)
    assert hidden_writes("aten::abs.default") is None


def test_registered_writes_without_names_make_an_operator_opaque(tables: None) -> None:
    register_hidden_writes("aten::neg")
    assert effects_of(aten.neg.default).opaque
    assert effects_of(aten.neg.default).hides_writes


def test_registered_writes_of_an_argument_that_does_not_exist_are_refused(tables: None) -> None:
    register_hidden_writes("aten::neg", ("cache",))
    with pytest.raises(BadRegistration, match="no argument cache"):
        effects_of(aten.neg.default)


def test_an_operator_that_may_return_its_argument_is_unsure(tables: None) -> None:
    register_may_return_argument("aten::neg")
    assert effects_of(aten.neg.default).is_unsure
    assert not effects_of(aten.neg.default).hides_writes


def test_every_written_argument_of_every_loaded_operator_is_known() -> None:
    """Against the text of the schemas: `(a!)` is written, and nothing else is."""
    tried = 0
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::"):
            continue
        op = find_operator(name)
        if op is None or hidden_writes(op) is not None:
            continue
        inputs = str(op._schema).partition(" -> ")[0]
        tried += 1
        assert inputs.count("!)") == sum(a.writes for a in effects_of(op).arguments), name
    assert tried > 2500
