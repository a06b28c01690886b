"""Inputs that are written in place, as references on request."""

from __future__ import annotations

from typing import Any

import torch

from air_config import CompilerConfig, Context, resolve
from air_fxpasses import npu_ops
from air_geir import Executable, compile_graph
from air_geir.proof import trace

ROWS = npu_ops.row("scatter_update_")


def compiled(references: bool) -> Executable:
    config = CompilerConfig()
    config.experimental_config.enable_ref_data = references
    settings = resolve(config, Context(device="cpu"))
    assert not [n for n in settings.notices if "enable_ref_data" in str(n)]
    cache, place, rows = torch.zeros(2, 3, 8, 16), torch.tensor([1, 4]), torch.ones(2, 3, 2, 16)

    def step(cache: torch.Tensor, place: torch.Tensor, rows: torch.Tensor) -> Any:
        return torch.ops.npu.scatter_update_(cache, place, rows, -2).sum()

    gm = trace(step, [cache, place, rows])
    return compile_graph(gm, [cache, place, rows], settings=settings, engine="reference")


def test_G15_a_written_input_is_a_reference_when_the_option_says_so() -> None:
    assert [n.op_type for n in compiled(False).program.graph.inputs] == ["Data"] * 3
    run = compiled(True)
    written, *others = run.program.graph.inputs
    assert [n.op_type for n in (written, *others)] == ["RefData", "Data", "Data"]
    assert written.name == f"RefData_{written.attr('_origin_data_name')}"
    assert "mark_references: 1 changed" in run.explain()["passes"]


def test_G15_a_graph_with_references_writes_the_same_as_one_without() -> None:
    place, rows = torch.tensor([1, 4]), torch.randn(2, 3, 2, 16)
    caches = [torch.zeros(2, 3, 8, 16) for _ in range(3)]
    for references, cache in zip((False, True), caches, strict=False):
        torch.testing.assert_close(compiled(references)(cache, place, rows)[0], rows.sum())
    ROWS.reference(caches[2], place, rows, -2)
    assert torch.equal(caches[0], caches[2])
    assert torch.equal(caches[1], caches[2])
