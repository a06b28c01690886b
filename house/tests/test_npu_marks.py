"""Tests that only an NPU can run say why: the others run on any accelerator."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from house.accelerator import ROOT, TESTED

UNEXPLAINED = re.compile(r"mark\.npu\b(?!\([\"'f])")


def lines_without_reason(text: str) -> Iterator[int]:
    """The numbers of the lines that mark a test `npu` and give no reason."""
    for number, line in enumerate(text.splitlines(), 1):
        if UNEXPLAINED.search(line):
            yield number


@pytest.mark.parametrize("package", TESTED)
def test_each_mark_of_an_npu_has_a_reason(package: str) -> None:
    files = sorted((ROOT / "packages" / package / "tests").rglob("*.py"))
    assert len(files) > 10
    unexplained = [f"{path.name}:{n}" for path in files for n in lines_without_reason(path.read_text())]
    assert not unexplained, "say why a CUDA device will not do: @pytest.mark.npu('only CANN ...')"


def test_a_mark_without_a_reason_is_found() -> None:
    text = "@pytest.mark.npu\n@pytest.mark.npu('only CANN does')\nx = pytest.param('npu', marks=pytest.mark.npu)\n"
    assert list(lines_without_reason(text)) == [1, 3]
