"""Random programs and exact comparison, to prove a pass (or anything that runs graphs) of your own."""

from __future__ import annotations

from air_fxpasses._compare import difference
from air_fxpasses._run import Outcome, copied, run_graph
from air_fxpasses.testing._instructions import FUNCTIONAL, IMPERATIVE
from air_fxpasses.testing._programs import (
    SQUARE,
    VARIED,
    Builder,
    Instruction,
    Program,
    Slot,
    build_program,
)
from air_fxpasses.testing._traced import backend_of, compiled_graph, functional_graph

__all__ = [
    "FUNCTIONAL",
    "IMPERATIVE",
    "SQUARE",
    "VARIED",
    "Builder",
    "Instruction",
    "Outcome",
    "Program",
    "Slot",
    "backend_of",
    "build_program",
    "compiled_graph",
    "copied",
    "difference",
    "functional_graph",
    "run_graph",
]
