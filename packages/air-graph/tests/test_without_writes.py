"""Functions without writes, wherever they are traced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from air_graph import without_writes

aten = torch.ops.aten


def writes(x: Tensor) -> Tensor:
    y = x * 2
    y.add_(1)
    x.mul_(y)
    return y + x


def targets() -> list[object]:
    gm = make_fx(without_writes(writes), tracing_mode="fake")(torch.ones(3))
    return [node.target for node in gm.graph.nodes if node.op == "call_function"]


class TracesInside(TorchDispatchMode):
    """Traces while it handles an operator."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not say it
        self.found: list[object] = []

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self.found = targets()
        return func(*args, **(kwargs or {}))


def test_writes_become_new_values_and_those_of_arguments_copies_at_the_end() -> None:
    assert targets() == [
        aten.mul.Tensor,
        aten.add.Tensor,
        aten.mul.Tensor,
        aten.add.Tensor,
        aten.copy_.default,
    ]


def test_it_is_the_same_inside_the_handler_of_an_operator() -> None:
    with TracesInside() as mode:
        torch.ones(2)
    assert mode.found == targets()


def test_the_function_itself_can_be_called() -> None:
    x = torch.ones(3)
    assert without_writes(writes)(x).tolist() == [6.0] * 3
    assert x.tolist() == [3.0] * 3
