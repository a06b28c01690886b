"""Rows by place: the graph engine refuses one before the first where the kernels of eager calls do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.npu
Program = Callable[..., subprocess.CompletedProcess[str]]

CALLS = """
import air_sim, torch, torchair
from torch.nn import functional as F
from torchair.configs.compiler_config import CompilerConfig

air_sim.change(sticky=False)
table = torch.arange(12.0, device="npu").reshape(4, 3)
FUNCTIONS = {
    "embedding": lambda x, i: F.embedding(i, x) + 1,
    "index_select": lambda x, i: x.index_select(0, i) + 1,
    "index": lambda x, i: x[i] + 1,
}
for name, function in FUNCTIONS.items():
    torch._dynamo.reset()
    backend = torchair.get_npu_backend(compiler_config=CompilerConfig())
    compiled = torch.compile(function, backend=backend, dynamic=False)
    for place in (-5, -1, 3, 4):
        for how, run in (("eager", function), ("graph", compiled)):
            try:
                first = run(table, torch.tensor([place, 2], device="npu"))[0, 0].cpu().item()
            except RuntimeError as error:
                first = "refused" if "507015" in str(error) else str(error)
            print("PLACE", name, place, how, first)
"""


def test_a_place_is_counted_from_the_end_where_eager_counts_it_from_there(program: Program) -> None:
    done = program(CALLS, timeout_s=280)
    lines = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("PLACE ")]
    assert len(lines) == 24, done.stdout[-500:] + done.stderr[-3000:]
    found = {(name, int(place), how): first for name, place, how, first in lines}
    counted = {(name, place): found[name, place, "graph"] for name, place, how in found if how == "graph"}
    assert counted == {(name, place): found[name, place, "eager"] for name, place in counted}
    assert {name for (name, place), first in counted.items() if place == -1 and first == "10.0"} == {"index"}
    assert found["embedding", -1, "graph"] == found["index_select", -1, "graph"] == "refused"
