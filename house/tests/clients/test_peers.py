"""Tests of PyTorch with another backend in the place of torch's: what is compared, and what a file may lack."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
THEIRS = """

import torch
from torch._inductor import no_such_name
from torch._dynamo.backends.registry import register_backend
from unittest import TestCase as InductorTestCase


@register_backend
def planted(gm, inputs):
    def run(*args):
        return [result + 1 if result.is_floating_point() else result.t() for result in gm(*args)]

    return run


raise OSError("not on this machine")


class CommonTemplate:
    def test_a_value(self):
        self.common(lambda x: x * 2, (torch.ones(3),))

    def test_strides(self):
        self.common(lambda x: x + 1, (torch.ones(2, 2, dtype=torch.int64),))

    def test_what_eager_refuses(self):
        self.common(lambda x: x.view(7), (torch.ones(3),))

    def test_a_name_that_this_torch_lacks(self):
        assert no_such_name() == 1

    def test_a_backend_that_the_test_chose(self):
        function = torch.compile(lambda x: x * 2, backend=lambda gm, inputs: gm.forward)
        torch.testing.assert_close(function(torch.ones(3)), torch.full((3,), 2.0))


if __name__ == "__main__":
    raise AssertionError("nobody runs it so")
"""


@pytest.fixture(scope="module")
def python() -> Path:
    """One that has torch."""
    found = sorted(Path(os.environ.get("AIR_TORCH_ENV", ROOT / ".nox")).glob("torch-*/bin/python"))
    if not found:
        pytest.skip("no environment of this checkout has torch yet: nox -s prepare")
    return found[0]


def told(python: Path, module: Path, way: str) -> dict[str, tuple[str, str]]:
    lines = module.with_suffix(".jsonl")
    command = [
        str(python),
        "-m",
        "house.clients.runner",
        str(module),
        "--compile",
        way,
        "--write",
        str(lines),
    ]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    return {row["test"]: (row["outcome"], row["why"]) for row in rows}


def test_what_differs_from_eager_fails_and_what_this_torch_lacks_fails_everywhere(
    python: Path, tmp_path: Path
) -> None:
    module = tmp_path / "test_torchinductor.py"
    module.write_text(THEIRS)
    good, bad = (told(python, module, way) for way in ("eager", "planted"))
    chosen, value, strides = (
        "Programs.test_a_backend_that_the_test_chose",
        "Programs.test_a_value",
        "test_strides",
    )
    lacks, refused = "Programs.test_a_name_that_this_torch_lacks", "Programs.test_what_eager_refuses"
    assert good[value][0] == good[chosen][0] == bad[chosen][0] == "pass"
    assert good[lacks][0] == bad[lacks][0] == "fail"
    assert good[refused][0] == "skip"
    assert "not close" in bad[value][1]
    assert "(1, 2)" in bad[f"Programs.{strides}"][1]
