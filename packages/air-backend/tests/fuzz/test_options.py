"""Random programs under random settings: no option that asks for the same result changes what a caller sees.

`--fuzz-programs N` sets how many programs each mode runs, `--fuzz-seed S` with which one it begins.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from air_config import OPTIONS
from air_graph.testing import FAMILIES, Judge, campaign
from drawn_options import LEFT_OUT, NOT_DRAWN, draw_options, values_of
from fuzz.campaigns import IGNORED, MODES, ON_NPU, REFUSED_AT_MOST

DRAWN = sorted(path for path, row in OPTIONS.items() if values_of(row, Path()))


def check(mode: str, seeds: range, device: str, folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is ignored or overridden is told, and has tests of its own
        options = [draw_options(seed, mode, folder, device) for seed in seeds]
        judge = Judge("air", {"mode": mode}, IGNORED[mode])
        report = campaign(judge, seeds, options, device, tuple(FAMILIES))
    print(report)
    assert report.programs == len(seeds)
    assert not report.findings, str(report)
    assert report.refused.total() <= REFUSED_AT_MOST * len(seeds), str(report)


@pytest.mark.parametrize("mode", MODES)
def test_random_settings_change_nothing_that_a_caller_sees(
    mode: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # what is dumped without a folder lands there
    first, programs = (request.config.getoption(name) for name in ("--fuzz-seed", "--fuzz-programs"))
    check(mode, range(first, first + programs), "cpu", tmp_path)


@pytest.mark.slow  # one aborted stream ends every test after it in the same process
@pytest.mark.parametrize("mode", MODES)
def test_random_settings_on_a_device_change_nothing_that_a_caller_sees(
    accelerator: str,
    mode: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    first, programs = (request.config.getoption(name) for name in ("--fuzz-seed", "--fuzz-programs"))
    check(mode, range(first, first + programs // ON_NPU), accelerator, tmp_path)


def test_nothing_is_left_out_that_is_no_option() -> None:
    assert [path for path in NOT_DRAWN if path not in DRAWN] == []
    for path in LEFT_OUT:
        assert any(f"{known}.".startswith(f"{path}.") for known in OPTIONS), path
