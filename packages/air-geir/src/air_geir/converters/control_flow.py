"""Branches that depend on data, and operators that write to their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from air_geir.building import Context, Value
from air_geir.converters._registry import converts
from air_geir.converters._rows import Body, register_rows

aten = torch.ops.aten


@converts("higher_order.cond")
def cond(
    ctx: Context, pred: Any, true_graph: fx.GraphModule, false_graph: fx.GraphModule, operands: Sequence[Any]
) -> tuple[Value, ...]:
    """cond(pred, true_graph, false_graph, operands): one of two graphs over the same operands."""
    values = [o if isinstance(o, Value) else ctx.number(o, torch.int64) for o in operands]
    condition = pred if isinstance(pred, Value) else ctx.truth(pred)
    bodies = {"then_branch": true_graph, "else_branch": false_graph}
    branches, given = ctx.branches(bodies, operands, values)
    metas = list(ctx.meta)
    return ctx.emit_many(
        "If", condition, given, num_outputs=len(metas), dtype=[m.dtype for m in metas], subgraphs=branches
    )


@converts("aten._assert_scalar.default")
def assert_scalar(ctx: Context, self: Any, assert_msg: str) -> None:
    """_assert_scalar(Scalar self, str assert_msg) -> ()

    The trace's own checks of sizes, which cannot fail. Those that can are left to torch before anything is translated.
    """


_CHECKS = {"_assert_async.msg": None, "_assert_async.default": None}


def _by_torch(row: None) -> Body:
    """A check of the program, an `assert` of numbers: the engine has nothing that stops there."""

    def convert(ctx: Context, self: Value, *assert_msg: str) -> None:
        ctx.refuse(
            "the engine cannot stop where a check of your program fails; torch can",
            "take the check out of the model",
        )

    return convert


register_rows(_CHECKS, _by_torch, lambda overload: (), "control_flow")


@converts("aten._assert_tensor_metadata.default")
def assert_metadata(
    ctx: Context, a: Value, size: Any = None, stride: Any = None, dtype: Any = None, *, device: Any = None,
    layout: Any = None,
) -> None:  # fmt: skip
    """_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, Device? device=None, Layout? layout=None) -> ()"""  # noqa: E501
