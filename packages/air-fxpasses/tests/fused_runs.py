"""Runs a function with the fusion patterns of the npu operators, and compares with eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from air_fxpasses import EliminateDeadCode, FusePatterns, Pipeline
from air_fxpasses.npu_ops import PATTERNS
from air_fxpasses.testing import copied, functional_graph, run_graph

HALF = torch.float16
x1, x2, gamma = torch.randn(6, 64).to(HALF), torch.randn(6, 64).to(HALF), torch.rand(64).to(HALF)
scales = torch.rand(64) + 0.1
deep = torch.randn(2, 3, 64).to(HALF)
left, right, last = torch.randn(4, 5, 128), torch.randn(4, 128, 128), torch.randn(512, 8)


def fused(function: Callable[..., Any], *inputs: Any, dynamic: bool = False) -> tuple[list[str], list[str]]:
    """(operators of the result, reasons of the refusals)."""
    gm = functional_graph(function, *inputs, is_dynamic=dynamic)
    eager = run_graph(gm, copied(inputs))
    passes = [FusePatterns(patterns=PATTERNS), EliminateDeadCode()]
    report = Pipeline(passes).run(gm, inputs)
    for before, after in zip(eager.outputs, run_graph(gm, copied(inputs)).outputs, strict=True):
        torch.testing.assert_close(
            after, before, rtol=2e-2, atol=1.01 if before.dtype == torch.int8 else 1e-2
        )
    ops = [
        str(n.target) for n in gm.graph.nodes if n.op == "call_function" and "getitem" not in str(n.target)
    ]
    return ops, [r.reason for r in report.refusals]
