"""Ascend IR in memory: plain Python objects with constant-time edits.

`Graph` holds `Node`s in program order; a node gives `Port`s and takes them in slots; a `TensorDesc` says what is known
of a value before it is computed; sizes that are not known are `Expr`essions over symbols.
"""

from __future__ import annotations

from air_geir.ir._attr import Attr, Named, TensorValue
from air_geir.ir._desc import TensorDesc
from air_geir.ir._expr import Dim, Expr, apply, maximum, minimum, symbol
from air_geir.ir._graph import Argument, Graph
from air_geir.ir._node import Node, Origin, Port, Value
from air_geir.ir._order import topological
from air_geir.ir._sympy import as_dim
from air_geir.types import AttrKind, DataType, Format, Placement

__all__ = [
    "Argument",
    "Attr",
    "AttrKind",
    "DataType",
    "Dim",
    "Expr",
    "Format",
    "Graph",
    "Named",
    "Node",
    "Origin",
    "Placement",
    "Port",
    "TensorDesc",
    "TensorValue",
    "Value",
    "apply",
    "as_dim",
    "maximum",
    "minimum",
    "symbol",
    "topological",
]
