"""Weights of an exported model: constants in the file, or raw files beside it."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from air_geir.engines import ArgInput, Program
from air_geir.ge_passes import DropUnusedInputs, run_passes
from air_geir.ir import Node, Placement, TensorDesc


def embed(program: Program, weights: Mapping[int, tuple[str, torch.Tensor]]) -> int:
    """Put a constant in the place of every input that is a weight; says how many.

    `weights` gives argument -> (qualified name, value). Inputs the graph writes stay inputs.
    """
    graph = program.graph
    inputs = dict(zip(graph.inputs, program.inputs, strict=True))
    count = 0
    for node, binding in inputs.items():
        if not isinstance(binding, ArgInput) or binding.arg not in weights or is_written(node):
            continue
        name, value = weights[binding.arg]
        with graph.inserting_before(node):
            constant = graph.const(value.detach().cpu(), name=graph.unique_name(name))
        node.output.replace_uses(constant)
        count += 1
    run_passes(program, [DropUnusedInputs()])
    return count


def is_written(node: Node) -> bool:
    """True when an operator writes into this input."""
    return any(
        user.prototype is not None and user.input_names[slot] in user.prototype.refs.values()
        for user, slot in node.output.uses
    )


def mark_written(program: Program) -> None:
    """Inputs that the graph writes become RefData, which tells the loader that their memory changes."""
    graph = program.graph
    for node in list(graph.inputs):
        if not is_written(node):
            continue
        desc = node.output.desc
        name = node.name
        with graph.inserting_before(node):
            new = graph.data(f"RefData_{name}", _on_device(desc), int(node.attr("index")), op_type="RefData")
        new.node.set_attr("_origin_data_name", name)
        node.output.replace_uses(new)
        for waiting in node.control_outputs:
            waiting.drop_control(node)
        node.erase()


def _on_device(desc: TensorDesc) -> TensorDesc:
    return (
        desc
        if desc.placement is not None
        else TensorDesc(
            desc.dtype, desc.shape, desc.format, desc.origin_format, desc.origin_shape, Placement.DEVICE
        )
    )
