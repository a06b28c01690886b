"""Every operator of torch's own operator table: what is proven is judged by running it at two sizes.

Each sample is traced with a symbol for every size, and each symbol is padded in turn.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental import _config as shapes
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

from air_fxpasses.padding import Proof, prove
from padded_runs import accepts, check, symbols_of, traced

SAMPLES = 3
LARGEST = 4000  # elements: the larger ones take long and show nothing new
UNWRITTEN = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
ENTRIES = [e for e in op_db if e.supports_dtype(torch.float32, "cpu") and e.name not in UNWRITTEN]
MORE = 3
USUAL = (
    "add", "addmm", "bmm", "cat", "cumsum", "expand", "index_select", "mm", "mul", "nn.functional.conv2d",
    "nn.functional.gelu", "nn.functional.layer_norm", "nn.functional.linear", "permute", "softmax", "topk",
    "transpose", "unsqueeze", "where",
)  # fmt: skip


def proven_and_refused(info: Any) -> Counter[str]:
    """Judges what is proven of an operator; counts what was proven and what was refused."""
    found: Counter[str] = Counter()
    samples = info.sample_inputs("cpu", torch.float32, requires_grad=False)
    for sample in itertools.islice(samples, SAMPLES):
        leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        tensors = [leaves[i].detach().clone() for i in places]
        if sum(t.numel() for t in tensors) > LARGEST:
            continue

        def call(*given: Tensor, leaves: Any = leaves, spec: Any = spec, places: Any = places) -> Any:
            own = list(leaves)
            for place, value in zip(places, given, strict=True):
                own[place] = value
            first, args, kwargs = tree_unflatten(own, spec)
            return info.op(first, *args, **kwargs)

        try:
            with shapes.patch(use_duck_shape=False):  # type: ignore[attr-defined]  # made at run time
                gm = traced(call, *tensors)
        except Exception:  # data-dependent operators and those without fake kernels cannot be traced at all
            found["untraced"] += 1
            continue
        for symbol, value in symbols_of(gm).items():
            proof = prove(gm, symbol)
            larger = {**symbols_of(gm), symbol: value + MORE}
            if not isinstance(proof, Proof):
                found["refused"] += 1
            elif accepts(gm, larger):
                check(gm, proof, tensors, MORE)
                found["proven"] += 1
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("info", [e for e in ENTRIES if e.name in USUAL], ids=lambda e: e.formatted_name)
def test_N11_what_is_proven_of_the_usual_operators_is_true(info: Any) -> None:
    assert proven_and_refused(info)["proven"]


@pytest.mark.slow
@pytest.mark.parametrize("info", ENTRIES, ids=lambda info: info.formatted_name)
def test_N11_what_is_proven_of_any_operator_is_true(info: Any) -> None:
    found = proven_and_refused(info)
    if not found["proven"]:
        pytest.skip(f"nothing is proven of it: {dict(found)}")
