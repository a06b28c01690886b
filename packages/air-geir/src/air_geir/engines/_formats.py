"""Formats in which the inputs of a graph lie: the engine is told of FRACTAL_NZ weights and their like.

A format belongs to memory. So a call asks for the formats of those inputs that lie elsewhere than in the call before:
comparing addresses costs a small part of asking.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import torch

from air_geir.errors import EngineError
from air_geir.ir import Format, Node
from air_geir.program import ArgInput, Program

_ORIGIN: Final = {4: Format.NCHW, 5: Format.NCDHW}


class InputFormats:
    """The formats of the tensors that callers give to a graph."""

    def __init__(self, program: Program) -> None:
        self._graph = program.graph
        bound = zip(program.graph.inputs, program.inputs, strict=True)
        self._nodes = [(at, node) for at, (node, by) in enumerate(bound) if isinstance(by, ArgInput)]
        self._addresses: list[int] = []

    def describe(self, inputs: Sequence[torch.Tensor]) -> bool:
        """Describes inputs as they lie, and says whether one lies otherwise than described before."""
        return any([_describe(node, tensor) for node, tensor in self._moved(inputs)])

    def require_dense(self, inputs: Sequence[torch.Tensor], engine: str) -> None:
        """An error for an input in an internal format, for an engine that takes dense inputs alone."""
        for node, tensor in self._moved(inputs):
            if (found := _format_of(tensor)).is_internal:
                self._addresses = []  # the next call asks again
                raise EngineError(
                    f"input {node.name} lies in the internal format {found.name}",
                    where=f"graph {self._graph.name}",
                    advice=f"engine {engine} takes dense inputs: use engine='torchair_extension' for such weights",
                )

    def _moved(self, inputs: Sequence[torch.Tensor]) -> Iterator[tuple[Node, torch.Tensor]]:
        addresses = [inputs[at].data_ptr() for at, _ in self._nodes]
        before, self._addresses = self._addresses, addresses
        if addresses == before:
            return
        for place, (at, node) in enumerate(self._nodes):
            if not before or addresses[place] != before[place]:
                yield node, inputs[at]


def _format_of(tensor: torch.Tensor) -> Format:
    if tensor.device.type != "npu":
        return Format.ND
    import torch_npu  # present whenever a tensor lives on an NPU

    return Format(torch_npu.get_npu_format(tensor))


def _describe(node: Node, tensor: torch.Tensor) -> bool:
    """Whether that changed the description."""
    found, port = _format_of(tensor), node.output
    if found == port.desc.format or not (found.is_internal or port.desc.format.is_internal):
        return False
    if found.is_internal:
        shape = tuple(tensor.shape)
        origin = _ORIGIN.get(len(shape), Format.ND)
        port.desc = replace(port.desc, format=found, origin_format=origin, origin_shape=shape)
    else:
        port.desc = replace(port.desc, format=Format.ND, origin_format=None, origin_shape=None)
    return True
