"""Which process of a job this is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from torch import distributed
from torch.testing._internal.distributed.fake_pg import FakeStore

from air_graph import ranks


@pytest.fixture
def job() -> Iterator[None]:
    """The third of four processes, without the others."""
    distributed.init_process_group("fake", rank=2, world_size=4, store=FakeStore())
    yield
    distributed.destroy_process_group()


def test_a_program_alone_is_the_first_of_one() -> None:
    assert (ranks.is_in_a_job(), ranks.rank_and_size()) == (False, (0, 1))


def test_a_process_of_a_job_knows_its_number_and_how_many_there_are(job: None) -> None:
    assert (ranks.is_in_a_job(), ranks.rank_and_size()) == (True, (2, 4))


def test_a_torch_without_distributed_is_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "is_available", lambda: False)
    monkeypatch.delattr(distributed, "is_initialized")
    assert ranks.rank_and_size() == (0, 1)


def test_a_process_group_is_found_by_the_name_that_torch_gave_it(job: None) -> None:
    group = distributed.group.WORLD
    assert group is not None
    assert ranks.group_named(group.group_name) is group
    assert ranks.group_named("of nobody") is None


def test_a_program_alone_has_no_process_group() -> None:
    assert ranks.group_named("0") is None


def test_N22_a_name_means_another_group_once_all_were_destroyed_and_made_anew() -> None:
    def joined() -> ranks.Groups:
        distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
        return ranks.Groups(["0", "of nobody"])

    first = joined()
    assert not first.are_others()
    assert first.gone() == ()
    distributed.destroy_process_group()
    assert first.are_others()
    assert first.gone() == ("0",)
    second = joined()
    assert first.gone() == ()
    assert first.are_others()
    assert not second.are_others()
    distributed.destroy_process_group()


def test_N22_a_name_of_nobody_may_become_that_of_a_group(job: None) -> None:
    groups = ranks.Groups(["1"])
    assert not groups.are_others()
    distributed.new_group([2])
    assert groups.are_others()
