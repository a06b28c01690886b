"""Recurrent networks, forward and backward: by the functions of this chip, and by operators of the older interface."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

pytestmark = pytest.mark.npu

SHAPES: dict[str, dict[str, object]] = {
    "one layer": {},
    "batch first": {"batch_first": True},
    "no biases": {"bias": False},
    "two layers": {"num_layers": 2},
    "three layers both ways": {"num_layers": 3, "bidirectional": True},
}


def pair(kind: type[torch.nn.Module], **settings: object) -> tuple[torch.nn.Module, torch.nn.Module]:
    """The same module on the device and on the CPU."""
    here = kind(4, 6, **settings)
    there = kind(4, 6, **settings).npu()
    there.load_state_dict(here.state_dict())
    return there, here


def close(actual: object, expected: object, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance, check_device=False)


def flat(result: object) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    return [tensor for part in result for tensor in flat(part)]  # type: ignore[attr-defined]  # a tuple


def gradients(module: torch.nn.Module, x: torch.Tensor, *states: torch.Tensor) -> list[torch.Tensor]:
    """Results, and the gradients of everything that a module reads, from all of its results."""
    leaves = [one.detach().to(next(module.parameters()).device).requires_grad_() for one in (x, *states)]
    state = leaves[1:] if len(leaves) < 3 else [tuple(leaves[1:])]
    results = flat(module(leaves[0], *state))
    sum(result.float().pow(2).sum() for result in results).backward()
    read = [*leaves, *module.parameters()]
    return [one.detach().cpu() for one in results] + [one.grad.cpu() for one in read if one.grad is not None]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [torch.nn.RNN, torch.nn.LSTM, torch.nn.GRU])
def test_a_recurrent_network_trains_as_on_the_cpu(kind: type[torch.nn.Module], shape: str) -> None:
    there, here = pair(kind, **SHAPES[shape])
    x = torch.randn(3, 5, 4)
    close(gradients(there, x), gradients(here, x))


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_the_first_states_have_gradients(kind: type[torch.nn.Module]) -> None:
    there, here = pair(kind, num_layers=2)
    states = [torch.randn(2, 5, 6) for _ in range(1 + (kind is torch.nn.LSTM))]
    x = torch.randn(3, 5, 4)
    close(gradients(there, x, *states), gradients(here, x, *states))


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_recurrent_network_computes_in_half_precision(
    kind: type[torch.nn.Module], dtype: torch.dtype
) -> None:
    there, here = pair(kind, num_layers=2)
    x = torch.randn(3, 5, 4)
    actual = gradients(there.to(dtype), x.to(dtype))
    close([one.float() for one in actual], gradients(here, x), 0.1)


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_a_recurrent_network_that_evaluates_keeps_nothing(kind: type[torch.nn.Module]) -> None:
    there, here = pair(kind, num_layers=2, bidirectional=True)
    x = torch.randn(3, 5, 4)
    with torch.no_grad():
        close([one.cpu() for one in flat(there.eval()(x.npu()))], flat(here.eval()(x)))


@pytest.mark.parametrize("kind", [torch.nn.RNNCell, torch.nn.LSTMCell, torch.nn.GRUCell])
def test_a_cell_trains_as_on_the_cpu(kind: type[torch.nn.Module]) -> None:
    there, here = pair(kind)
    x = torch.randn(5, 4)
    close(gradients(there, x), gradients(here, x))


@pytest.mark.parametrize("shape", ["one layer", "two layers"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_an_lstm_of_packed_sequences_ends_each_where_it_ends(shape: str, bidirectional: bool) -> None:
    there, here = pair(torch.nn.LSTM, bidirectional=bidirectional, **SHAPES[shape])
    x, lengths = torch.randn(4, 3, 4), torch.tensor([4, 2, 1])

    def results(module: torch.nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
        out, states = module(pack_padded_sequence(x, lengths))
        padded = pad_packed_sequence(out)[0]
        padded.pow(2).sum().backward()
        learned = [parameter.grad.cpu() for parameter in module.parameters()]
        return [padded.detach().cpu(), *(one.detach().cpu() for one in states), *learned]

    close(results(there, x.npu()), results(here, x))


def test_an_operator_of_the_older_interface_without_a_kernel_is_an_error_that_names_it() -> None:
    import torch_npu

    def status() -> None:
        torch_npu.npu_get_float_status(torch.zeros(8).npu())
        torch.npu.synchronize()

    with pytest.raises(
        RuntimeError, match="aclop NPUGetFloatStatusV2: air-sim has no kernel for this operator type"
    ):
        status()
