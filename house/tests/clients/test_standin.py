"""Tests that look at insides of TorchAir, with AIR standing in: what is wired sees the graph, what is not is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
THEIRS = """
import unittest
from unittest import mock

import torch
import torchair
from torchair import npu_fx_compiler
from torchair.core import _no_such_module


class Insides(unittest.TestCase):
    def test_the_graph_after_the_passes_is_seen(self):
        with mock.patch.object(npu_fx_compiler, "_optimize_fx") as seen:
            function = torch.compile(lambda x: x * 2 + 1, backend=torchair.get_npu_backend())
            torch.testing.assert_close(function(torch.ones(3)), torch.full((3,), 3.0))
        (graph, *_), _ = seen.call_args
        self.assertIn(torch.ops.aten.mul.Tensor, [node.target for node in graph.graph.nodes])

    def test_what_air_does_not_have_is_told(self):
        with mock.patch.object(_no_such_module, "name"):
            pass
"""


def test_what_is_wired_sees_the_graph_and_what_is_not_is_told(tmp_path: Path) -> None:
    module, lines = tmp_path / "insides_test.py", tmp_path / "told.jsonl"
    module.write_text(THEIRS)
    sources = os.pathsep.join(str(path) for path in sorted(ROOT.glob("packages/*/src")))
    command = [sys.executable, "-m", "house.clients.runner", str(module), "--air", "--write", str(lines)]
    env = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYTHONPATH": sources}
    subprocess.run(command, cwd=ROOT, check=True, env=env)
    told = {row["test"]: row["outcome"] for row in map(json.loads, lines.read_text().splitlines())}
    assert told == {
        "Insides.test_the_graph_after_the_passes_is_seen": "pass",
        "Insides.test_what_air_does_not_have_is_told": "unseen",
    }
