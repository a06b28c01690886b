"""Fixes a graph of open sizes to the sizes of one call, for engines that compile only fixed sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch

from air_geir import file
from air_geir.ir import Expr, Graph, Port
from air_geir.program import Program, SymInput, SymPackInput

Sizes: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class OpenSizes:
    """What differs from call to call among a program's inputs: sizes of tensors, and inputs that are sizes."""

    program: Program

    @classmethod
    def of_program(cls, program: Program) -> OpenSizes | None:
        """None for one of fixed sizes."""
        results = (port.desc.is_static for port in program.graph.outputs)
        return None if program.is_static and all(results) else cls(program)

    @cached_property
    def _open(self) -> tuple[int, ...]:
        return tuple(at for at, n in enumerate(self.program.graph.inputs) if not n.output.desc.is_static)

    @cached_property
    def _numbers(self) -> tuple[int, ...]:
        bindings = enumerate(self.program.inputs)
        return tuple(at for at, binding in bindings if isinstance(binding, (SymInput, SymPackInput)))

    def of(self, inputs: Sequence[torch.Tensor]) -> Sizes:
        """Those of a call."""
        shapes = [tuple(inputs[at].shape) for at in self._open]
        return (*shapes, *(tuple(inputs[at].reshape(-1).tolist()) for at in self._numbers))

    def given(self, inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """The inputs that a graph of fixed sizes has."""
        return [tensor for at, tensor in enumerate(inputs) if at not in self._numbers]

    def fixed(self, inputs: Sequence[torch.Tensor]) -> Graph:
        """The graph with the sizes of these inputs; numbers of the host become constants of it."""
        graph = file.from_bytes(file.to_bytes(self.program.graph))
        nodes = graph.inputs
        for at in self._open:
            port = nodes[at].output
            port.desc = port.desc.with_shape(tuple(inputs[at].shape))
        for at in self._numbers:
            _become_constant(graph, nodes[at].output, inputs[at])
        left = [node for at, node in enumerate(nodes) if at not in self._numbers]
        for index, node in enumerate(left):
            node.set_attr("index", index)
        return graph


def _become_constant(graph: Graph, port: Port, value: torch.Tensor) -> None:
    with graph.inserting_before(port.node):
        constant = graph.const(value, name=f"{port.node.name}_known")
    port.replace_uses(constant)
    for waiting in port.node.control_outputs:
        waiting.drop_control(port.node)
    port.node.erase()


def undecided(program: Program) -> list[str]:
    """Operators of which only a run tells the sizes of a result: no size of an input decides them."""
    ports = (port for graph in program.graph.graphs() for node in graph for port in node.outputs)
    found = {port.node.name: None for port in ports if not _is_decided(port, program)}
    results = [port for port in program.graph.outputs if port.desc.shape is None]
    return list({**found, **{port.node.name: None for port in results}})


def _is_decided(port: Port, program: Program) -> bool:
    if port.desc.shape is None:  # left to the engine, which knows unless the operator counts
        return port.node.op_type != "NonZero"
    return all(_follows(dim, program) for dim in port.desc.shape)


def _follows(dim: object, program: Program) -> bool:
    if not isinstance(dim, Expr):
        return dim != -1
    sources = [program.symbols.get(name) for name in dim.symbols()]
    return all(source is not None and not source.computed for source in sources)
