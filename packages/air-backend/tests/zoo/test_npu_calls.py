"""What diffusers calls of torch_npu is on the CPU what it calls elsewhere."""

from __future__ import annotations

import torch
from torch.nn import functional

from zoo.npu_calls import geglu, rms_norm


def test_a_gate_is_the_second_half() -> None:
    x = torch.randn(3, 8)
    given, gelu = geglu(x)
    torch.testing.assert_close(gelu, functional.gelu(x[:, 4:], approximate="tanh"))
    torch.testing.assert_close(given, x[:, :4] * gelu)
    torch.testing.assert_close(geglu(x, activate_left=True, approximate=0)[1], functional.gelu(x[:, :4]))


def test_a_norm_is_that_of_torch() -> None:
    x, weight = torch.randn(3, 8), torch.randn(8)
    torch.testing.assert_close(rms_norm(x, weight)[0], functional.rms_norm(x, (8,), weight, 1e-6))
