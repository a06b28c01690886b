"""A variable that TorchAir reads and AIR does not leaves a warning with what to use instead."""

from __future__ import annotations

import pytest

from air_backend._variables import UNREAD, warn_of_unread


@pytest.mark.parametrize("name", UNREAD)
def test_a_variable_without_effect_is_named_with_what_does_its_job(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_unread({name: "SLICE"})
    (record,) = caplog.records
    assert record.getMessage() == f"{name}=SLICE is ignored: {UNREAD[name]}"


def test_an_unset_or_empty_variable_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_unread({"BREAK_GRAPH_OP_LIST": ""})
    assert not caplog.records
