"""Plans a graph once: what runs in which order, what is known already, and when each storage can be released."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from air_geir.errors import EngineError
from air_geir.ir import Graph, Node, Port
from air_geir.reference._aliases import Aliases
from air_geir.reference._host import host_function
from air_geir.reference._linear import Linear
from air_geir.reference.kernels import Kernel, Operator, kernel_for
from air_geir.types import INPUT_TYPES

_FOLD_LIMIT = 1 << 16
"""Largest constant (in elements) that folding may make."""
_IMPURE = frozenset({"StatelessRandomUniformV2", "PrintV2", "Assert"})
_FROM_START = frozenset(
    {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "ExpandDims", "BroadcastTo", "Identity"}
)
"""Views that begin with the first element of their operand."""
_INTEGERS = frozenset({torch.int32, torch.int64})


@dataclass
class Step:
    """One line of the program: results = function(arguments)."""

    function: Callable[..., Any]
    label: str
    arguments: list[str]
    results: list[str]
    single: bool
    node: Node | None = None


@dataclass
class Plan:
    """The steps of a graph, with the names of its inputs and outputs."""

    inputs: list[str]
    outputs: list[str]
    strided: set[int] = field(default_factory=set)
    """Outputs in memory of their own that a kernel may have laid out in its own way."""
    steps: list[Step] = field(default_factory=list)
    globals: dict[str, Any] = field(default_factory=dict)
    folded: int = 0
    hosted: int = 0
    copies: int = 0


class Planner:
    """Makes the plan of one graph."""

    def __init__(
        self,
        graph: Graph,
        assigned: Mapping[int, int],
        subplan: Callable[[Graph], Any],
        *,
        each: bool = False,
    ) -> None:
        """`each` gives every operator a step of its own, so that all intermediate values can be written."""
        self.graph = graph
        self.assigned = assigned
        self.subplan = subplan
        self.plan = Plan([], [])
        self.constants: dict[Port, torch.Tensor] = {}
        self.names: dict[Port, str] = {}
        self.hosts: dict[Port, str] = {}
        self.literals: dict[Port, str] = {}
        self.aliases = Aliases(graph)
        self.linear = Linear() if each else Linear.of(graph, self.aliases)

    def make(self) -> Plan:
        """The plan; an error listing every operator type that has no kernel."""
        self._check()
        for position, node in enumerate(self.graph.inputs):
            self.names[node.output] = f"v{position}"
            self.plan.inputs.append(f"v{position}")
        for node in self.graph:
            if not node.is_input:
                self._place(node)
        self._outputs()
        return self.plan

    def _check(self) -> None:
        skip = INPUT_TYPES | {"Const", "Constant", "NetOutput"}
        missing: dict[str, str] = {}
        for node in self.graph:
            if node.op_type not in skip and kernel_for(node.op_type) is None:
                missing.setdefault(node.op_type, str(node.origin or node.name))
        if missing:
            listed = "; ".join(f"{op_type} at {where}" for op_type, where in missing.items())
            raise EngineError(
                f"the reference engine has no kernel for {len(missing)} operator types: {listed}",
                where=f"graph {self.graph.name}",
                advice="register one with air_geir.reference.kernel, or use an engine of the device",
            )

    # placing a node ---------------------------------------------------------------------------------------

    def _place(self, node: Node) -> None:
        if node.op_type in ("Const", "Constant"):
            self.constants[node.output] = node.attr("value").tensor().cpu()
        elif (
            node.op_type == "NetOutput"
            or node in self.linear.absorbed
            or self._on_host(node)
            or self._fold(node)
        ):
            return
        elif node in self.linear.weights:
            self._product(node, self.linear.weights[node])
        else:
            self._step(node)

    def _on_host(self, node: Node) -> bool:
        """Sizes are computed with plain numbers when everything they are made of is one."""
        if node.op_type == "Shape":
            return self._shape(node)
        function = host_function(node)
        if function is None or not any(p in self.hosts for p in node.inputs):
            return False
        if not all(p is not None and self._host_ready(p) for p in node.inputs):
            return False
        self._emit(function, node, self._host_arguments(node), [self._host_name(node.output)], single=True)
        self.plan.hosted += 1
        return True

    def _shape(self, node: Node) -> bool:
        (x,) = node.inputs
        if x is None:
            return False
        if x in self.constants or x.desc.is_static:
            sizes = self.constants[x].shape if x in self.constants else x.desc.file_shape()
            self.constants[node.output] = torch.tensor(tuple(sizes), dtype=_shape_dtype(node))
            self.plan.folded += 1
            return True
        self._emit(_sizes_of, node, [self._name(x)], [self._host_name(node.output)], single=True)
        self.plan.hosted += 1
        return True

    def _host_ready(self, port: Port) -> bool:
        if port in self.hosts:
            return True
        constant = self.constants.get(port)
        return constant is not None and constant.dtype in _INTEGERS and constant.dim() <= 1

    def _host_name(self, port: Port) -> str:
        name = f"h{len(self.hosts)}"
        self.hosts[port] = name
        return name

    def _host_arguments(self, node: Node) -> list[str]:
        arguments: list[str] = []
        for spec, ports in _by_port(node):
            texts = [self._host_text(p) for p in ports if p is not None]
            arguments.append(f"[{', '.join(texts)}]" if spec.kind.value == "*" else texts[0])
        return arguments

    def _fold(self, node: Node) -> bool:
        """A node that depends on constants alone is computed now."""
        kernel = _kernel(node)
        if (
            kernel.writes
            or node.subgraphs
            or node.op_type in _IMPURE
            or "group" in node.attrs  # other ranks wait for each of its calls
            or node.control_inputs
            or not node.inputs
        ):
            return False
        if not all(p is None or p in self.constants for p in node.inputs):
            return False
        if any((port.desc.numel or 0) > _FOLD_LIMIT for port in node.outputs):
            return False
        function = kernel.factory(self._operator(node))
        arguments = [self._folded(kernel, spec, ports) for spec, ports in _by_port(node)]
        results = function(*arguments)
        several = results if isinstance(results, (tuple, list)) else (results,)
        if any(r.numel() > _FOLD_LIMIT for r in several):
            return False
        self.constants.update(zip(node.outputs, several, strict=True))
        self.plan.folded += 1
        return True

    def _folded(self, kernel: Kernel, spec: Any, ports: Sequence[Port | None]) -> Any:
        values = [None if p is None else self.constants[p] for p in ports]
        if spec.name in kernel.host:
            values = [None if v is None else _plain(v) for v in values]
        return values if spec.kind.value == "*" else values[0] if values else None

    def _step(self, node: Node) -> None:
        kernel = _kernel(node)
        function = kernel.factory(self._operator(node))
        self._protect(node, kernel)
        arguments = [self._argument(kernel, spec, ports) for spec, ports in _by_port(node)]
        results = []
        for port in node.outputs:
            self.names[port] = f"v{len(self.names)}"
            results.append(self.names[port])
        single = len(results) == 1 and bool(node.prototype and node.prototype.plain_outputs)
        self._emit(function, node, arguments, results, single=single)

    def _product(self, node: Node, weight: Port) -> None:
        ports = (node.input("x1"), weight, node.input("bias"))
        arguments = [self._name(port) for port in ports if port is not None]
        name = self.names[node.output] = f"v{len(self.names)}"
        self._emit(torch.nn.functional.linear, node, arguments, [name], single=True)

    def _protect(self, node: Node, kernel: Kernel) -> None:
        """Before an operator writes, values that share the storage and are read later get their own copy."""
        for name in kernel.writes or {}:
            written = node.input(name)
            if written is None:
                continue
            if written in self.constants or self.aliases.must_own(written, node):
                self._copy(written)
            for port in self.aliases.endangered(written, node):
                if port in self.names:
                    self._copy(port)

    def _copy(self, port: Port) -> None:
        name = self._name(port)
        if port in self.constants:
            self.constants.pop(port)
            self.names[port] = fresh = f"v{len(self.names)}"
            self.plan.steps.append(Step(torch.clone, "clone", [name], [fresh], True))
        else:
            self.plan.steps.append(Step(torch.clone, "clone", [name], [name], True))
        self.aliases.separate(port)
        self.plan.copies += 1

    # arguments --------------------------------------------------------------------------------------------

    def _argument(self, kernel: Kernel, spec: Any, ports: Sequence[Port | None]) -> str:
        text = self._host_text if spec.name in kernel.host else self._name
        texts = ["None" if p is None else text(p) for p in ports]
        if spec.kind.value == "*":
            return f"[{', '.join(texts)}]"
        return texts[0] if texts else "None"

    def _name(self, port: Port) -> str:
        """The tensor's name; a constant becomes a global, a size becomes a tensor where one is needed."""
        known = self.names.get(port)
        if known is not None:
            return known
        if port in self.constants:
            name = f"c{len(self.plan.globals)}"
            self.plan.globals[name] = self.constants[port]
            self.names[port] = name
            return name
        name = self.names[port] = f"v{len(self.names)}"
        dtype = port.desc.dtype.torch
        self._emit(_tensor_maker(dtype), port.node, [self.hosts[port]], [name], single=True)
        return name

    def _host_text(self, port: Port) -> str:
        """The numbers of a tensor, as Python source or as the name of a variable that holds them."""
        known = self.hosts.get(port) or self.literals.get(port)
        if known is not None:
            return known
        if port in self.constants:
            text = self.literals[port] = repr(_plain(self.constants[port]))
            return text
        name = self._name(port)
        self._emit(_plain, port.node, [name], [self._host_name(port)], single=True)
        return self.hosts[port]

    def _emit(
        self,
        function: Callable[..., Any],
        node: Node,
        arguments: list[str],
        results: list[str],
        *,
        single: bool,
    ) -> None:
        self.plan.steps.append(Step(function, node.op_type, arguments, results, single, node))

    def _operator(self, node: Node) -> Operator:
        prototype = node.prototype
        attrs: dict[str, Any] = {}
        for spec in prototype.attrs if prototype else ():
            if not spec.is_required or spec.name in node.attrs:
                attrs[spec.name] = node.attr(spec.name)
        attrs.update({name: attr.value for name, attr in node.attrs.items()})
        constants = {
            spec.name: self.constants[ports[0]]
            for spec, ports in _by_port(node)
            if len(ports) == 1 and ports[0] is not None and ports[0] in self.constants
        }
        return Operator(
            node.op_type,
            str(node.origin or node.name),
            attrs,
            len(node.outputs),
            tuple(p.desc.dtype.torch if p.desc.dtype.has_torch else None for p in node.outputs),
            constants,
            {name: self.subplan(graph) for name, graph in node.subgraphs.items()},
            tuple(port.desc.dtype for port in node.inputs if port is not None),
        )

    # results ----------------------------------------------------------------------------------------------

    def _outputs(self) -> None:
        """Results are dense and own their storage: none shares it with an input, a constant or another result."""
        seen: set[Port] = set()
        for index, port in enumerate(self.graph.outputs):
            name = self._name(port)
            root = self.aliases.root(port)
            target = self.graph.inputs[self.assigned[index]].output if index in self.assigned else None
            shared = root in seen or root.node.is_input or port in self.constants or _is_const(root)
            if shared and not (target is not None and root is target):
                self.plan.copies += 1
                name = self._result(index, _copy, name)
            elif target is None and _from_start(port, root):
                self.plan.strided.add(index)
            elif target is None:
                name = self._result(index, _dense, name)
            seen.add(root)
            self.plan.outputs.append(name)

    def _result(self, index: int, function: Callable[..., Any], name: str) -> str:
        self.plan.steps.append(Step(function, function.__name__.strip("_"), [name], [f"o{index}"], True))
        return f"o{index}"


def _dense(value: torch.Tensor) -> torch.Tensor:
    """A value that may be a view, as a dense tensor of its own that begins its storage."""
    return value.data if value.is_contiguous() and not value.storage_offset() else _copy(value)


def _copy(value: torch.Tensor) -> torch.Tensor:
    return value.clone(memory_format=torch.contiguous_format)


def _from_start(port: Port, root: Port) -> bool:
    """Whether a value begins where the one begins whose storage it uses."""
    while port is not root:
        source = port.node.inputs[0] if port.node.op_type in _FROM_START else None
        if source is None:
            return False
        port = source
    return True


def _is_const(port: Port) -> bool:
    return port.node.op_type in ("Const", "Constant")


def _kernel(node: Node) -> Kernel:
    found = kernel_for(node.op_type)
    if found is None:
        raise EngineError(f"the reference engine has no kernel for {node.op_type}", where=node.name)
    return found


def _by_port(node: Node) -> list[tuple[Any, Sequence[Port | None]]]:
    """Each input of the prototype with the values that feed it."""
    prototype = node.prototype
    if prototype is None:
        raise EngineError(f"operator type {node.op_type} has no prototype", where=node.name)
    result, at = [], 0
    for spec, count in zip(prototype.inputs, node.arity, strict=True):
        result.append((spec, node.inputs[at : at + count]))
        at += count
    return result


def _plain(value: torch.Tensor) -> Any:
    numbers: Any = value.tolist()
    return tuple(numbers) if isinstance(numbers, list) else numbers


def _sizes_of(value: torch.Tensor) -> tuple[int, ...]:
    return tuple(value.shape)


def _shape_dtype(node: Node) -> torch.dtype:
    return torch.int64 if int(node.attr("dtype")) == 9 else torch.int32


def _tensor_maker(dtype: torch.dtype) -> Callable[[Any], torch.Tensor]:
    return lambda numbers: torch.tensor(numbers, dtype=dtype)
