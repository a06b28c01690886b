"""The fault isolation of docs/accuracy.md: run_eagerly tells passes from executors, on a Llama and on a small graph.

A pass of the pipeline is replaced by a wrong one.  The result is wrong with and without a capture, right where no
pass acts (run_eagerly in max-autotune), and right again with that pass's own switch off.  A wrong executor shows the
other way round: run_eagerly is right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from torch.fx import GraphModule

from air_aclgraph import Executable
from air_backend import CompilerConfig, _records, get_npu_backend
from air_fxpasses import PassResult, passes

SMALL: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
SWITCHES = (  # a pass, and the option that leaves it out
    ("ReinplaceInplaceable", "debug.aclgraph.disable_reinplace_inplaceable_ops_pass", True),
    ("ReinplaceInputMutated", "debug.aclgraph.disable_reinplace_input_mutated_ops_pass", True),
    ("RemoveNoop", "experimental_config.remove_noop_ops", False),
    ("EliminateCat", "debug.aclgraph.remove_cat_ops", False),
    ("FusePatterns", "experimental_config.pattern_fusion_pass", False),
)


Function = Callable[[Tensor], Tensor]


@pytest.fixture(scope="module")
def llama() -> Function:
    torch.manual_seed(0)
    model: Any = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)).train(False)

    def logits(tokens: Tensor) -> Tensor:
        found: Tensor = model(tokens, use_cache=False).logits
        return found

    return logits


TOKENS = torch.arange(12).reshape(2, 6)


def small(tokens: Tensor) -> Tensor:
    x = tokens.float()
    return torch.relu(x + x.cos()) * 2


def is_right(function: Function, mode: str, *, eagerly: bool, **switches: object) -> bool:
    """Whether the compiled function gives the numbers of eager, in its first call and in a later one."""
    torch._dynamo.reset()
    config = CompilerConfig()
    config.set("mode", mode)
    config.debug.run_eagerly = eagerly
    for path, value in switches.items():
        config.set(path, value)
    call = torch.compile(function, backend=get_npu_backend(compiler_config=config), dynamic=False)
    with torch.no_grad():
        expected = function(TOKENS)
        return all(torch.allclose(call(TOKENS), expected, rtol=2e-4, atol=2e-4) for _ in range(2))


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_S05_S06_run_eagerly_of_llama_equals_eager(llama: Function, mode: str) -> None:
    assert is_right(llama, mode, eagerly=True)
    ((record, run),) = _records.alive()
    assert record.executor == "run_eagerly"
    assert "for " not in run.source, "one straight function, no loop over nodes"
    assert run.source.startswith("def graph(")


def wrong(gm: GraphModule) -> bool:
    """A mistake of the kind that passes make: an operand of an addition is taken twice."""
    for node in gm.graph.nodes:
        if node.target not in (torch.ops.aten.add.Tensor, torch.ops.aten.add_.Tensor):
            continue
        first, second = node.args
        if isinstance(second, torch.fx.Node) and first is not second:
            node.args = (first, first)
            gm.recompile()
            return True
    return False


def isolate(function: Function, switch: str, off: object) -> None:
    """Steps 2, 3 and 4 of the document."""
    assert not is_right(function, "reduce-overhead", eagerly=True), "step 3: passes act, nothing is captured"
    assert is_right(function, "max-autotune", eagerly=True), "step 2: no pass acts"
    others = [(path, value) for _, path, value in SWITCHES if path != switch]
    assert not is_right(function, "reduce-overhead", eagerly=True, **dict(others)), "no other switch helps"
    assert is_right(function, "reduce-overhead", eagerly=True, **{switch: off}), "step 4: the pass to blame"


@pytest.mark.parametrize(("name", "switch", "off"), SWITCHES)
def test_S14_S15_a_wrong_pass_shows_in_run_eagerly_and_is_gone_with_its_switch(
    monkeypatch: pytest.MonkeyPatch, name: str, switch: str, off: object
) -> None:
    kind = getattr(passes, name)
    monkeypatch.setattr(kind, "__call__", lambda self, gm, facts: PassResult(modified=wrong(gm)))
    isolate(small, switch, off)


def test_S05_S06_a_wrong_pass_in_a_llama_is_isolated(
    llama: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, switch, off = SWITCHES[0]
    monkeypatch.setattr(
        getattr(passes, name), "__call__", lambda self, gm, facts: PassResult(modified=wrong(gm))
    )
    assert not is_right(llama, "reduce-overhead", eagerly=True)
    assert is_right(llama, "reduce-overhead", eagerly=True, **{switch: off})


def test_S05_a_wrong_executor_is_wrong_without_run_eagerly_only(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Executable.boxed

    def boxed(self: Executable, args: list[Any]) -> Any:
        return tuple(out * 2 for out in original(self, args))

    monkeypatch.setattr(Executable, "boxed", boxed)
    assert not is_right(small, "reduce-overhead", eagerly=False)
    assert is_right(small, "reduce-overhead", eagerly=True)
