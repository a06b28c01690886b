from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from air_aclgraph.static_kernel import StaticKernels, SymbolRefused, _pipeline
from air_aclgraph.static_kernel._tree import CACHE, OUTPUTS
from static_kernel.stand_in import StandIn

Make = Callable[..., StaticKernels]


@pytest.fixture(autouse=True)
def _no_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_S08_the_first_run_of_a_key_compiles_installs_and_reselects(make: Make, cann: StandIn) -> None:
    kernels = make()
    assert kernels.around((), cann.model("Add", "MatMul")) == ("Add", "MatMul")
    (report,) = kernels.reports
    assert (report.operators, report.compiled, report.installed, report.failure) == (2, 2, 1, None)
    assert set(report.seconds) == {"dump", "select", "look up", "compile", "install", "reselect"}
    assert (cann.compilations, cann.installations, cann.selections) == (1, 1, [2])


def test_a_key_that_was_compiled_is_run_without_anything_else(make: Make, cann: StandIn) -> None:
    kernels = make()
    for _ in range(3):
        kernels.around((8,), cann.model("Add"))
    assert (len(kernels.reports), cann.compilations) == (1, 1)


def test_of_more_keys_than_can_be_known_those_that_came_first_are_forgotten(
    make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_pipeline, "TRIED", 3)
    kernels = make()
    for key in range(6):
        kernels.around((key,), cann.model("Add"))
    assert [kernels.wants((key,)) for key in range(6)] == [True] * 3 + [False] * 3
    kernels.around((0,), cann.model("Add"))
    assert cann.compilations == 1, "it is in the cache"
    assert kernels.reports.maxlen == _pipeline.REPORTS


def test_S10_the_products_are_those_of_the_document(make: Make, cann: StandIn, build: Path) -> None:
    make().around((), cann.model("Add", "MatMul", dynamic=("Nonzero",)))
    assert sorted(f.name for f in build.iterdir()) == [CACHE, OUTPUTS]
    (run,) = (build / OUTPUTS).iterdir()
    stamp, pid, word = run.name.split("_")
    assert (stamp.isdigit(), pid, word) == (True, str(os.getpid()), "outputs")
    folders = {f.name: sorted(j.name for j in f.iterdir()) for f in run.iterdir() if f.is_dir()}
    compilable = ["Add.json", "MatMul.json"]
    everything = [*compilable, "Nonzero.json"]
    assert folders == {pid: everything, f"{pid}_debug": everything, f"{pid}_opcompile": compilable}
    (product,) = (f for f in run.iterdir() if f.is_file())
    assert product.name.startswith("static_kernel_")
    assert product.suffix == ".run"


def test_S13_N17_a_new_key_compiles_only_what_is_missing_and_only_once(make: Make, cann: StandIn) -> None:
    kernels = make()
    kernels.around((1,), cann.model("Add_1", "Bias"))
    kernels.around((2,), cann.model("Add_2", "Bias"))
    kernels.around((2,), cann.model("Add_2", "Bias"))
    kernels.around((3,), cann.model("Add_1", "Add_2"))
    assert [(r.key, r.operators, r.found, r.compiled) for r in kernels.reports] == [
        ((1,), 2, 0, 2),
        ((2,), 2, 1, 1),
        ((3,), 2, 2, 0),
    ]
    assert (cann.compilations, cann.installations) == (2, 2)
    assert cann.selections[-1] == 3


def test_A47_a_second_graph_takes_its_kernels_from_the_cache(make: Make, cann: StandIn) -> None:
    make().around((), cann.model("Add", "Mul"))
    again = make()
    again.around((), cann.model("Mul", "Add"))
    assert (again.reports[0].found, again.reports[0].compiled, cann.compilations) == (2, 0, 1)


def test_A47_what_a_kernel_depends_on_is_part_of_its_key(make: Make, cann: StandIn) -> None:
    make().around((), cann.model("Add"))
    cann.cann = "9.0.0"
    make().around((), cann.model("Add"))
    make(flags=("--enable_super_kernel",)).around((), cann.model("Add"))
    assert cann.compilations == 3


def test_A47_without_the_cache_a_new_start_compiles_again(make: Make, cann: StandIn, build: Path) -> None:
    make().around((), cann.model("Add"))
    make(cached=False).around((), cann.model("Add"))
    assert cann.compilations == 2
    make(cached=False).around((), cann.model("Add"))
    assert cann.compilations == 2, "one job compiles an operator once, whatever graph has it"


def test_a_cache_directory_of_ones_own_is_used(
    make: Make, cann: StandIn, build: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    make(cache_dir=tmp_path / "mine").around((), cann.model("Add"))
    assert not (build / CACHE).exists()
    assert len(list((tmp_path / "mine").glob("*/*/manifest.json"))) == 1


def test_A49_blacklisted_operators_are_left_out_with_the_reason(make: Make, cann: StandIn) -> None:
    kernels = make(blacklist=("Mat",))
    kernels.around((), cann.model("Add", "MatMul", dynamic=("Nonzero",)))
    (report,) = kernels.reports
    assert report.compiled == 1
    assert report.refused == (
        ("MatMul", "on the blacklist: 'Mat'"),
        ("Nonzero", "not compilable for fixed shapes"),
    )


def test_A46_only_watched_values_of_the_symbol_are_compiled(make: Make, cann: StandIn) -> None:
    kernels = make(symbol=1, values=(16, 32))
    for size in (8, 16, 24, 32):
        kernels.around((2, size), cann.model(f"Add_{size}"))
    assert [report.key for report in kernels.reports] == [(2, 16), (2, 32)]


def test_A46_a_symbol_that_the_graph_lacks_is_refused(make: Make, cann: StandIn) -> None:
    with pytest.raises(SymbolRefused, match="2 symbolic size"):
        make(symbol=2, values=(1,)).around((4, 8), cann.model("Add"))


def test_A48_from_cann_9_1_on_kernels_are_installed_apart(make: Make, cann: StandIn, tmp_path: Path) -> None:
    cann.private = cann.quiet = True
    (tmp_path / "own").mkdir()
    kernels = make(install_dir=tmp_path / "own")
    kernels.around((), cann.model("Add"))
    (place,) = (tmp_path / "own").glob("*/static_kernel/ai_core/*/kernels")
    assert cann.installed_packages() == []
    (words,) = (cann.folder / "installed").read_text().splitlines()
    assert words == f"--install-path={place.parents[3]} -q"


def test_N17_the_cost_is_said_before_it_is_paid(
    make: Make, cann: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        make(time_limit_s=90.0, jobs=3).around((1,), cann.model("Add"))
        make().around((2,), cann.model("Mul", "Sub"))
    first, second = (r.getMessage() for r in caplog.records)
    assert "compiling 1 operators with 3 jobs; expected: nothing was compiled before" in first
    assert "at most 90 s" in first
    assert "compiling 2 operators" in second
    assert re.search(r"expected: \d+ s; at most 30 min", second)


def test_an_error_of_the_model_is_the_models(make: Make, cann: StandIn) -> None:
    def broken() -> None:
        raise ZeroDivisionError("in the model")

    with pytest.raises(ZeroDivisionError, match="in the model"):
        make().around((), broken)
    assert cann.dumping is None


def test_a_graph_without_operators_ends_after_the_selection(make: Make, cann: StandIn) -> None:
    kernels = make(blacklist=("Add",))
    kernels.around((), cann.model("Add"))
    assert cann.compilations == 0
    assert kernels.reports[0].failure is None


def test_products_of_ended_processes_are_removed_when_they_exceed_the_bound(
    make: Make, cann: StandIn, build: Path
) -> None:
    old = build / OUTPUTS / "20200101000000000000_999999999_outputs"
    old.mkdir(parents=True)
    (old / "large").write_bytes(bytes(5000))
    make(limit_bytes=100_000).around((1,), cann.model("Add"))
    assert old.exists()
    make(limit_bytes=4000).around((2,), cann.model("Mul"))
    assert not old.exists()


@pytest.mark.slow
def test_a_second_start_is_ten_times_sooner_than_one_that_compiles(
    make: Make, cann: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler takes ten seconds here; that of CANN takes minutes."""
    monkeypatch.setenv("STAND_IN_SLEEP", "10")
    seconds = []
    for _ in range(2):
        kernels = make()
        kernels.around((), cann.model("Add", "MatMul"))
        seconds.append(sum(kernels.reports[0].seconds.values()))
    assert cann.compilations == 1
    assert seconds[0] > 10 * seconds[1]
