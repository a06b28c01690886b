"""Random programs and call sequences, judged by eager PyTorch: the differential tester of a compile backend.

A seed makes a `Case`: a Python function over torch and a script of calls, both source text. A `Judge` runs it in eager
and compiled, and compares after every line all that a caller can see: values, sizes, strides, offsets, dtypes, what
shares memory with what, which result is which object, gradients, and whatever is still held of earlier calls. Where
`aot_eager` differs from eager alike, the fault is torch's. What is left is shrunk to a few lines that can be pasted
into a test.

    python -m air_graph.testing --backend air --mode max-autotune --programs 500 --seed 7 --jobs 2

With TORCHDYNAMO_CAPTURE_DYNAMIC_OUTPUT_SHAPE_OPS=1 and TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS=1 in the environment, sizes
and numbers that depend on data are part of a graph, and no break of it: programs that a backend has to cut.
"""

from __future__ import annotations

from air_graph.testing._calls import draw_case
from air_graph.testing._campaign import Finding, Report, campaign
from air_graph.testing._case import Case, Given, Statement
from air_graph.testing._compare import KINDS, Difference, differences
from air_graph.testing._judge import Judge, Verdict
from air_graph.testing._programs import FAMILIES
from air_graph.testing._run import Trace, run_case
from air_graph.testing._shrink import shrink
from air_graph.testing._workers import Order, in_processes

__all__ = [
    "FAMILIES",
    "KINDS",
    "Case",
    "Difference",
    "Finding",
    "Given",
    "Judge",
    "Order",
    "Report",
    "Statement",
    "Trace",
    "Verdict",
    "campaign",
    "differences",
    "draw_case",
    "in_processes",
    "run_case",
    "shrink",
]
