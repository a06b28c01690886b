"""Kernels that are the reference of a card: the meaning is written once, in `air_fxpasses.npu_cards`.

    Type(ports) = operator {attributes} [outputs]

A row says what each input and attribute of an operator type stands for, by the documents of Ascend IR. That the cards
say the same is what the tests of converters show.

| word | says |
|---|---|
| a port | the argument that this input is, in the order of the prototype |
| `port#`, `*port` | it is handed over as integers; it is a list that holds one tensor |
| `-` | no argument stands for this input |
| `name`, `name=attribute` | an argument that is an attribute |
| `name=type(attribute)` | an argument that is a type, whose number the attribute is |
| `name:=value` | an argument that the operator type has no attribute for |
| `~attribute` | it changes no number; any other that is not named is refused unless it has its default |
| an output | the number of a result, or the port that it is; without them, the results as they are |
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards import NotCovered, reference, unpacked_operand
from air_geir.prototypes import get
from air_geir.reference.kernels._registry import Operator, Run, kernel

_ROW: Final = re.compile(r"(\w+)\(([^)]*)\) = (\w+)(?: \{([^}]*)\})?(?: \[([^\]]*)\])?")


def register_rows(table: str) -> None:
    """Registers a kernel for each row; what a type writes in place, its prototype says."""
    for row in table.strip().replace("\n    ", " ").splitlines():
        match = _ROW.fullmatch(row)
        assert match is not None, row
        _register(*(group or "" for group in match.groups()))


def _register(op_type: str, ports: str, operator: str, words: str, gives: str) -> None:
    prototype = get(op_type)
    host = [
        port.name for port, name in zip(prototype.inputs, ports.split(), strict=True) if name.endswith("#")
    ]
    writes = {
        port: [p.name for p in prototype.outputs].index(output) for output, port in prototype.refs.items()
    }
    fixed = {name: ast.literal_eval(value) for name, value in re.findall(r"(\w+):=(\S+)", words)}
    attributes = re.sub(r"\w+:=\S+", "", words)
    named = set(re.findall(r"(\w+)\)?(?: |$)", attributes))
    taken = re.sub(r"~\w+", "", attributes)
    unread = [spec for spec in prototype.attrs if spec.name not in named]

    def factory(op: Operator) -> Run:
        for spec in unread:
            if (value := op.attr(spec.name)) != spec.default:
                raise op.refuse(f"{spec.name}={value!r} is not supported")
        return calling(op, operator, ports.replace("#", ""), op.keywords(taken) | fixed, gives)

    kernel(op_type, host=host, writes=writes or None)(factory)


def calling(op: Operator, operator: str, ports: str, given: Mapping[str, Any], gives: str = "") -> Run:
    """A function of the inputs that calls the reference; what that does not compute is refused."""
    names, outputs, compute = ports.split(), gives.split(), reference(operator)

    def run(*values: Any) -> Any:
        fed = {}
        for name, value in zip(names, values, strict=True):
            if name == "-" and value is not None:
                raise op.refuse("one of the inputs cannot be computed with")
            if name != "-":
                fed[name.removeprefix("*")] = _only(op, value) if name.startswith("*") else value
        try:
            results = compute(**fed, **given)
        except NotCovered as why:
            raise op.refuse(f"{why.variant} cannot be computed") from why
        if outputs:
            results = tuple(results[int(o)] if o.isdigit() else fed[o] for o in outputs)
        return _of_four_bits(op, results) if torch.quint4x2 in op.output_dtypes else results

    return run


def _of_four_bits(op: Operator, results: Any) -> Any:
    """The reference packs values of four bits, eight to a number; an operator type gives them one by one."""
    single = isinstance(results, Tensor)
    given = [results] if single else list(results)
    opened = [
        unpacked_operand(one) if kind == torch.quint4x2 else one
        for one, kind in zip(given, op.output_dtypes, strict=False)  # a type may have more outputs
    ]
    return opened[0] if single else tuple(opened)


def _only(op: Operator, tensors: Sequence[Tensor]) -> Tensor:
    if len(tensors) != 1:
        raise op.refuse("a list of caches cannot be computed")
    return tensors[0]
