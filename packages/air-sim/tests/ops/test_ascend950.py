"""What torch_npu calls on Ascend950 alone: it has no older interface there, and newer versions of some functions."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.npu

PRELUDE = """
import torch, torch_npu
import torch.nn.functional as F

def gradients(run, *shapes, device, dtype=torch.float32):
    torch.manual_seed(0)
    leaves = [torch.randn(*shape).to(device, dtype).requires_grad_() for shape in shapes]
    out = run(*leaves)
    out.pow(2).sum().backward()
    return [out.detach().cpu(), *(leaf.grad.cpu() for leaf in leaves)]

def same(run, *shapes):
    there, here = (gradients(run, *shapes, device=device) for device in ("npu", "cpu"))
    torch.testing.assert_close(there, here, atol=1e-4, rtol=1e-4)
"""

PROGRAMS = {
    "attention": """
q = (2, 4, 5, 8)
same(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), q, q, q)
same(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3), q, q, q)
""",
    "dropout in attention": """
def attend(v):
    torch.npu.manual_seed(3)
    q = torch.zeros(1, 2, 8, 16, device="npu")
    return F.scaled_dot_product_attention(q, q, v, dropout_p=0.5)

v = torch.ones(1, 2, 8, 16, device="npu", requires_grad=True)
out = attend(v)
assert torch.equal(out, attend(v)) and not torch.equal(out, torch.ones_like(out))
# The function is linear in v: its gradient is right when it gives the sum of the results back.
out.sum().backward()
torch.testing.assert_close((v.grad * v).sum(), out.sum())
""",
    "dropout": """
x = torch.ones(1000, device="npu", requires_grad=True)
out = F.dropout(x, 0.25)
out.sum().backward()
assert torch.equal(out.detach(), x.grad) and 600 < (out != 0).sum() < 900
""",
    "Adam": """
def learned(device, **settings):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 5).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05, fused=device == "npu", **settings)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(3, 4).to(device)).pow(2).sum().backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in model.parameters()]

for settings in ({}, {"amsgrad": True}, {"weight_decay": 0.1}):
    torch.testing.assert_close(learned("npu", **settings), learned("cpu", **settings))
""",
    "recurrent networks": """
for kind in (torch.nn.LSTM, torch.nn.GRU):
    torch.manual_seed(1)
    here = kind(4, 6, num_layers=2, bidirectional=True)
    there = kind(4, 6, num_layers=2, bidirectional=True).npu()
    there.load_state_dict(here.state_dict())
    same(lambda x: (there if x.is_npu else here)(x)[0], (3, 5, 4))
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_ascend950_computes_what_the_cpu_does(
    name: str, program: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = program(PRELUDE + PROGRAMS[name] + "\nprint('done')", soc="Ascend950")
    assert "done" in done.stdout, done.stderr[-2000:]
