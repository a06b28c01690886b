"""Recorded operators repeat what eager computes."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from air_aclgraph import HostRuntime, Request

#: Operators whose result is memory of any content, that a capture has to refuse, or whose database entry sets
#: the seed inside the call, which is no part of a recording.
_NOT_HERE = ("empty", "nonzero", "unique", "masked_select", "item", "resize", "equal", "argwhere", "allclose",
             "jiterator", "set_", "bincount", "repeat_interleave", "sparse", "masked.", "lstsq",
             "multinomial", "dropout", "rand", "normal", "bernoulli", "uniform", "geometric", "cauchy",
             "exponential", "rrelu", "lobpcg", "lowrank", "fractional_max_pool", "multi_head_attention")  # fmt: skip
OPS = [op for op in op_db if torch.float32 in op.dtypes and not any(part in op.name for part in _NOT_HERE)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("part", range(10))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_recorded_operators_repeat_what_eager_computes(part: int) -> None:
    """Every operator of PyTorch's database: recorded with one set of values, replayed with another."""
    wrong, tried = [], 0
    for op in OPS[part::10]:
        samples = itertools.islice(op.sample_inputs("cpu", torch.float32, requires_grad=False), 2)
        for sample in samples:
            outcome = _replays_like_eager(op, sample)
            tried += outcome is not None
            if outcome is False:
                wrong.append(op.formatted_name)
    assert not wrong
    assert tried > 40


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", ["binary_cross_entropy", "huber_loss", "mse_loss", "smooth_l1_loss"])
def test_a_recorded_loss_is_that_of_each_replay(name: str, reduction: str) -> None:
    """The `.out` kernels of these losses need memory for every element."""
    loss = getattr(torch.nn.functional, name)
    given = [torch.rand(5, 5), torch.rand(5, 5)]
    recording = HostRuntime().record(lambda x, y: (loss(x, y, reduction=reduction),), given, Request())
    for _ in range(3):
        for tensor in given:
            tensor.uniform_()
        recording.replay()
        torch.testing.assert_close(recording.outputs[0], loss(*given, reduction=reduction))


def test_rows_of_no_columns_are_looked_up() -> None:
    """A rank has none of a table whose columns are spread over more ranks than there are."""
    given = [torch.empty(5, 0), torch.tensor([[1, 2]])]
    recording = HostRuntime().record(lambda w, i: (torch.embedding(w, i),), given, Request())
    recording.replay()
    assert recording.outputs[0].shape == (1, 2, 0)


def _replays_like_eager(op: object, sample: object) -> bool | None:
    leaves, spec = torch.utils._pytree.tree_flatten((sample.input, sample.args, sample.kwargs))  # type: ignore[attr-defined]  # SampleInput
    places = [i for i, v in enumerate(leaves) if isinstance(v, torch.Tensor)]
    kept = [leaves[i].detach().clone() for i in places]

    def body(*tensors: torch.Tensor) -> tuple[object, ...]:
        values = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            values[place] = tensor
        first, args, kwargs = torch.utils._pytree.tree_unflatten(values, spec)
        return tuple(torch.utils._pytree.tree_leaves(op(first, *args, **kwargs)))  # type: ignore[operator]  # OpInfo

    try:
        recording = HostRuntime().record(body, kept, Request())
    except RuntimeError:
        return None  # a refusal, tested elsewhere
    for tensor in kept:
        if tensor.is_floating_point():
            tensor.mul_(0.5)
    torch.manual_seed(5)
    recording.replay()
    torch.manual_seed(5)
    expected = body(*[t.clone() for t in kept])
    pairs = zip(recording.outputs, expected, strict=True)
    tensors = [(f, e) for f, e in pairs if isinstance(f, torch.Tensor) and isinstance(e, torch.Tensor)]
    return all(torch.allclose(f, e, equal_nan=True, rtol=1e-4, atol=1e-5) for f, e in tensors)
