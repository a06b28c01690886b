"""Results are kept one line for each architecture; a part that ran replaces its own rows; parts are the same to all."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo import architectures, results
from zoo.architectures import Architecture, Shard
from zoo.results import Outcome, Row

GOOD = Row(
    "lib",
    "b",
    "B",
    outcomes={
        "aot_eager": Outcome("same", seconds=1.5),
        "max-autotune": Outcome("same", pieces=2, eagerly=("aten.x",)),
    },
)
BAD = Row("lib", "a", left_out="too large", version="1.2")


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    file = results.file_of(tmp_path, "cpu")
    assert results.read(file) == []
    results.write(file, [GOOD, BAD])
    assert results.read(file) == [GOOD, BAD]
    assert len(file.read_text().splitlines()) == 4


def test_a_fresh_row_replaces_the_kept_one() -> None:
    fresh = Row("lib", "b", "B", outcomes={"aot_eager": Outcome("error")})
    assert results.merged([GOOD, BAD], [fresh]) == [BAD, fresh]


def test_shards_hold_every_architecture_once() -> None:
    every = [Architecture("lib", str(number)) for number in range(200)]
    held = [[one for one in every if Shard(part, 5).holds(one)] for part in range(5)]
    assert sorted(one for part in held for one in part) == sorted(every)
    assert min(map(len, held)) > 20


def test_a_shard_is_read_from_its_name() -> None:
    assert Shard.parsed("2/5") == Shard(2, 5)
    with pytest.raises(ValueError, match="from 0"):
        Shard.parsed("5/5")


def test_a_module_of_models_is_a_library() -> None:
    assert architectures.version("zoo.faulty_models") == ""
    assert {one.name for one in architectures.listed(["zoo.faulty_models"])} == {
        "good",
        "noisy",
        "hangs",
        "crashes",
    }
