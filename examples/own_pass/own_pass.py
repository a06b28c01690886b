"""A pass of your own: x * sigmoid(x) becomes silu(x), proven against the graph before it.

    python examples/own_pass/own_pass.py

A pass is a frozen dataclass that edits the graph through `facts` and says what it did and what it left alone, and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.fx import GraphModule

from air_backend import CompilerConfig, get_npu_backend
from air_fxpasses import Facts, Pass, PassResult, Pipeline, Refusal
from air_fxpasses.testing import compiled_graph

aten = torch.ops.aten


@dataclass(frozen=True)
class FuseSilu(Pass):
    """mul(x, sigmoid(x)) -> silu(x)"""

    name: ClassVar[str] = "fuse_silu"
    rtol: ClassVar[float] = 1e-6  # a fused operator may round differently; the default is not a bit

    def __call__(self, gm: GraphModule, facts: Facts) -> PassResult:
        done, refusals = 0, []
        for product in list(gm.graph.find_nodes(op="call_function", target=aten.mul.Tensor)):
            x, gate = product.args
            if getattr(gate, "target", None) is not aten.sigmoid.default or gate.args != (x,):
                continue
            if len(gate.users) > 1:
                refusals.append(Refusal.of("somebody else reads the sigmoid", gate))
                continue
            silu = facts.insert_before(product, aten.silu.default, (x,))
            facts.replace_uses(product, silu)
            facts.erase(product)
            facts.erase(gate)
            done += 1
        return PassResult(done > 0, tuple(refusals), (f"{done} fused",) if done else ())


def model(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    h = x @ w
    k = h + 1
    gate = torch.sigmoid(k)
    return h * torch.sigmoid(h), k * gate + gate  # the second must stay: its gate is read twice


def fuse_silu(gm: GraphModule, example_inputs: Sequence[Any], config: CompilerConfig) -> None:
    """The same pass in the form that a compilation takes."""
    print(Pipeline([FuseSilu()]).run(gm, example_inputs).explain())


def main() -> None:
    x, w = torch.randn(4, 8), torch.randn(8, 8)
    report = Pipeline([FuseSilu()], verify=True).run(gm := compiled_graph(model, x, w), [x, w])
    (step,) = report.steps
    assert not step.rolled_back, step.rolled_back
    assert not FuseSilu()(gm, Facts(gm)).modified  # once more finds nothing
    print("proven:", *step.notes, "and", len(step.refusals), "left alone")

    for mode in ("reduce-overhead", "max-autotune"):
        torch._dynamo.reset()
        config = CompilerConfig.from_options({"mode": mode, "post_grad_custom_pre_pass": fuse_silu})
        compiled = torch.compile(model, backend=get_npu_backend(compiler_config=config))
        torch.testing.assert_close(compiled(x, w), model(x, w))
        print(f"{mode}: what eager computes")


if __name__ == "__main__":
    main()
