"""Weights of an exported model: constants in the file, or raw files beside it."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from air_geir.ge_passes import DropUnusedInputs, run_passes
from air_geir.program import ArgInput, Program, is_written


def embed(program: Program, weights: Mapping[int, tuple[str, torch.Tensor]]) -> int:
    """Put a constant in the place of every input that is a weight; says how many.

    `weights` gives argument -> (qualified name, value). Inputs the graph writes stay inputs.
    """
    graph = program.graph
    inputs = dict(zip(graph.inputs, program.inputs, strict=True))
    count = 0
    for node, binding in inputs.items():
        if not isinstance(binding, ArgInput) or binding.arg not in weights or is_written(node.output):
            continue
        name, value = weights[binding.arg]
        with graph.inserting_before(node):
            constant = graph.const(value.detach().cpu(), name=graph.unique_name(name))
        node.output.replace_uses(constant)
        count += 1
    run_passes(program, [DropUnusedInputs()])
    return count
