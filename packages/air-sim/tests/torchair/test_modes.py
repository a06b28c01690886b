"""TorchAir from the wheel, unmodified, on a transformer block: the peer that AIR is measured against."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.npu
Program = Callable[..., subprocess.CompletedProcess[str]]

BLOCK = """
import copy, torch, torch_npu, torchair
from torch.nn import functional as F
from torchair.configs.compiler_config import CompilerConfig

class Block(torch.nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.silu(self.up(self.norm2(x))))

def backend(mode):
    if mode == "npugraph_ex":
        return mode
    config = CompilerConfig()
    config.mode = mode
    return torchair.get_npu_backend(compiler_config=config)

torch.manual_seed(0)
model = Block()
twin = copy.deepcopy(model).npu()
"""


@pytest.mark.parametrize(
    "mode", ["reduce-overhead", pytest.param("npugraph_ex", marks=pytest.mark.slow), "max-autotune"]
)
def test_torchair_computes_a_transformer_block(program: Program, mode: str) -> None:
    done = program(
        BLOCK
        + f"""
with torch.no_grad():
    for dynamic, lengths in ((False, (5, 5, 5)), (True, (5, 5, 7, 5))):
        torch._dynamo.reset()
        compiled = torch.compile(twin, backend=backend({mode!r}), dynamic=dynamic)
        for length in lengths:
            x = torch.randn(2, length, 32)
            torch.testing.assert_close(compiled(x.npu()).cpu(), model(x), atol=1e-4, rtol=1e-4)
        print("equal", "dynamic" if dynamic else "static")
"""
    )
    assert "equal static" in done.stdout, done.stdout + done.stderr[-3000:]
    assert "equal dynamic" in done.stdout, done.stdout + done.stderr[-3000:]


def test_the_options_of_graphs_and_sessions_are_recorded(program: Program, tmp_path: object) -> None:
    record = f"{tmp_path}/options"
    done = program(
        BLOCK
        + """
with torch.no_grad():
    torch.compile(twin, backend=backend("max-autotune"), dynamic=False)(torch.randn(2, 5, 32).npu())
torch.npu.synchronize()
""",
        ge_record=record,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    with open(record) as file:
        text = file.read()
    assert '"call":"AddGraph"' in text
    assert '"ge.exec.staticMemoryPolicy":"2"' in text


@pytest.mark.slow
def test_training_through_torchair_gives_the_gradients_of_eager(program: Program) -> None:
    done = program(
        BLOCK
        + """
x = torch.randn(2, 5, 32)
torch.compile(twin, backend=backend("reduce-overhead"), dynamic=False)(x.npu()).sum().backward()
model(x).sum().backward()
for a, b in zip(twin.parameters(), model.parameters()):
    torch.testing.assert_close(a.grad.cpu(), b.grad, atol=1e-3, rtol=1e-3)
print("equal")
"""
    )
    assert "equal" in done.stdout, done.stdout + done.stderr[-3000:]
