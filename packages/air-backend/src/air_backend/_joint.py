"""Forward and backward as one graph: gradients are computed where the loss is, and only scaled afterwards.

    joint graph: inputs, d(loss) ─► loss ─► gradients
    compiled:    inputs ─► loss, gradients for d(loss) = 1          in the forward
                 gradients, d(loss) ─► gradients * d(loss)          in the backward

That is right where one result takes a gradient, has one element, and all gradients are linear in its own. Everything
else is divided as usual, with a warning that says why. The caller sees no difference: `loss.backward()` gives what it
gives otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils.checkpoint import CheckpointPolicy

from air_backend._dropped import Halves, divided
from air_backend._written_once import TAG, hides_a_write, is_of_backward
from air_backend.errors import NotJoined
from air_graph import followers_of, link_of, nearest_source_of, warn_at, why_not_linear, writes

aten = torch.ops.aten

JOINED: Final = "air_joint"
"""Where a graph says that it computes forward and backward."""
#: What a checkpoint says of an operator that it runs again in the backward.
_AGAIN: Final = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)
_told: Final[set[tuple[str, str]]] = set()


def partition_of(joined: bool) -> Callable[..., Halves]:
    """What divides a joint graph into forward and backward."""
    return partition if joined else divided


def partition(joint: fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **known: Any) -> Halves:
    """The forward with the gradients in it, and the backward that scales them; where that cannot be, the usual ones."""
    refusal = why_not_joined(joint, num_fwd_outputs)
    if refusal is None:
        _join(joint, num_fwd_outputs)
    else:
        _warn_once(refusal)
    is_joined = refusal is None
    forward, backward = divided(joint, inputs, num_fwd_outputs=num_fwd_outputs, is_joined=is_joined, **known)
    if is_joined:
        forward.meta[JOINED] = True
    return forward, backward


@dataclass(frozen=True)
class Refusal:
    """Why forward and backward stay two graphs, the node to blame, and what to do."""

    reason: str
    node: fx.Node | None = None
    advice: str = ""


def why_not_joined(joint: fx.GraphModule, results: int) -> Refusal | None:
    """None where the gradients can be computed in the forward; `results` are those of the forward."""
    tangents = tangents_of(joint)
    if len(tangents) != 1:
        return _several(joint, tangents, results)
    value = tangents[0].meta["val"]
    if value.numel() != 1 or value.dtype.is_complex:
        what = "complex" if value.dtype.is_complex else f"no loss: it has the size {list(value.shape)}"
        return Refusal(
            f"the result that takes a gradient is {what}",
            _result_of(joint, tangents[0], results),
            "compute the loss inside the compiled function, and return one number",
        )
    if refusal := _unfit(joint):
        return refusal
    found = why_not_linear(tangents[0])
    return None if found is None else Refusal(found.reason, found.node)


def _several(joint: fx.GraphModule, tangents: Sequence[fx.Node], results: int) -> Refusal:
    found = [_result_of(joint, each, results) for each in tangents]
    numbers = [tuple(node.meta["val"].shape) for node in tangents]
    extra = next((node for node, size in zip(found, numbers, strict=True) if size), found[-1])
    return Refusal(
        f"{len(tangents)} results take gradients (of the sizes {', '.join(str(list(n)) for n in numbers)}), not one",
        extra,
        "return .detach() of every result but the loss",
    )


def _unfit(joint: fx.GraphModule) -> Refusal | None:
    """What a joint graph must not hold."""
    for node in joint.graph.nodes:
        if node.op == "placeholder" and not (_is_tangent(node) or str(node.target).startswith("primals")):
            return Refusal(f"the graph takes {node.target} beside its inputs", node)
        if getattr(node.target, "__name__", "") == "with_effects":
            return Refusal("an operator has effects whose order is kept", node)
        if is_of_backward(node) and writes(node):
            return Refusal("the backward writes to an input", node)
        if node.meta.get("recompute") in _AGAIN and hides_a_write(node):
            return Refusal("a checkpoint runs an operator again that writes to an input", node)
    return None


def _join(joint: fx.GraphModule, results: int) -> None:
    """Computes all gradients for d(loss) = 1 in the forward, and scales them in the backward."""
    (tangent,) = tangents_of(joint)
    following = followers_of(tangent)
    tangent.replace_all_uses_with(_one_like(tangent))
    for node in joint.graph.nodes:
        if node.op != "placeholder":
            node.meta.pop("recompute", None)  # what is in one graph is computed once
        if node.meta.get(TAG) == "is_backward" and node is not tangent:
            node.meta[TAG] = "is_forward"
    output = joint.graph.output_node()
    found = list(output.args[0])  # type: ignore[arg-type]  # AOTAutograd's: a flat list
    with joint.graph.inserting_before(output):
        scaling = _Scaling(tangent, following)
        scaled = [scaling.of(each) if isinstance(each, fx.Node) else each for each in found[results:]]
    output.args = ((*found[:results], *scaled),)
    joint.recompile()


def _one_like(tangent: fx.Node) -> fx.Node:
    """The gradient of a loss in itself."""
    value = tangent.meta["val"]
    kwargs = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
    last = list(tangent.graph.find_nodes(op="placeholder"))[-1]
    with tangent.graph.inserting_after(last):
        return _called(tangent, "is_forward", aten.full.default, ([1] * value.dim(), 1), kwargs)


class _Scaling:
    """Makes gradients out of those that were computed for d(loss) = 1."""

    def __init__(self, tangent: fx.Node, following: set[fx.Node]) -> None:
        self._tangent = tangent
        self._following = following
        self._made: dict[fx.Node, fx.Node] = {}
        self._factor = tangent
        if tangent.meta["val"].dim():
            self._factor = self._call(aten.view.default, tangent, [])

    def of(self, gradient: fx.Node) -> fx.Node:
        """The gradient; views are made of the scaled value, as they lie in eager."""
        if gradient not in self._made:
            self._made[gradient] = self._of(gradient)
            for key in ("stack_trace", "desc"):
                if key in gradient.meta:
                    self._made[gradient].meta[key] = gradient.meta[key]
        return self._made[gradient]

    def _of(self, gradient: fx.Node) -> fx.Node:
        if gradient not in self._following:
            # autograd may keep it, and the caller write to it
            return self._call(aten.clone.default, gradient)
        link = link_of(gradient)
        if link is None or link.kind not in ("view", "again") or link.node.target is not gradient.target:
            return self._scaled(gradient)
        base = self.of(link.base)
        args = [base if arg is link.base else arg for arg in gradient.args]
        return self._call(gradient.target, *args, **gradient.kwargs)

    def _scaled(self, gradient: fx.Node) -> fx.Node:
        dtype = gradient.meta["val"].dtype
        wide = torch.promote_types(dtype, self._factor.meta["val"].dtype)
        if wide == dtype:
            return self._call(aten.mul.Tensor, gradient, self._factor)
        widened = self._call(aten._to_copy.default, gradient, dtype=wide)
        product = self._call(aten.mul.Tensor, widened, self._factor)
        return self._call(aten._to_copy.default, product, dtype=dtype)

    def _call(self, op: Any, *args: Any, **kwargs: Any) -> fx.Node:
        return _called(self._tangent, "is_backward", op, args, kwargs)


def _called(tangent: fx.Node, tag: str, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> fx.Node:
    """A node that calls an operator, with an example of its result."""
    node = tangent.graph.call_function(op, tuple(args), dict(kwargs))
    given, named = fx.map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
    with unset_fake_temporarily(), tangent.meta["val"].fake_mode:
        node.meta["val"] = op(*given, **named)
    node.meta[TAG] = tag
    return node


def tangents_of(joint: fx.GraphModule) -> list[fx.Node]:
    """The inputs of a graph that are gradients, by the names that AOTAutograd gives them."""
    return [node for node in joint.graph.find_nodes(op="placeholder") if _is_tangent(node)]


def _is_tangent(node: fx.Node) -> bool:
    return str(node.target).startswith("tangents")


def _result_of(joint: fx.GraphModule, tangent: fx.Node, results: int) -> fx.Node | None:
    """The result that a gradient belongs to, where torch has noted it."""
    output = joint.graph.output_node()
    wanted = getattr(tangent.meta.get("desc"), "output", None)
    named = zip(output.args[0], output.meta.get("desc", ()), strict=False)  # type: ignore[arg-type]
    found = next(
        (node for node, desc in list(named)[:results] if wanted is not None and desc == wanted), None
    )
    return found if isinstance(found, fx.Node) else None


def _warn_once(refusal: Refusal) -> None:
    """Warns, once for each reason and line."""
    line = None if refusal.node is None else nearest_source_of(refusal.node)
    told = (refusal.reason, str(line))
    if told in _told:
        return
    _told.add(told)
    warning = NotJoined(refusal.reason, None if line is None else str(line), refusal.advice)
    warn_at(line, warning, "air_backend")
