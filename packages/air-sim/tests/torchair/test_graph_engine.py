"""Operators of the Graph Engine, reached the way users reach them: TorchAir's max-autotune against the CPU."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.npu
Program = Callable[..., subprocess.CompletedProcess[str]]

FUNCTIONS = """
import json, torch, torchair
from torch.nn import functional as F
from torchair.configs.compiler_config import CompilerConfig

torch.manual_seed(0)
x, y, sq = torch.randn(4, 6), torch.randn(4, 6), torch.randn(6, 6)
image, kernel = torch.randn(2, 4, 8, 8), torch.randn(6, 4, 3, 3)
index = torch.tensor([[0, 2, 1, 3, 0, 1]])
rows = torch.tensor([2, 0, 3])
mask = x > 0
FUNCTIONS = {
    "arithmetic": lambda: (lambda a, b: (a - b) * a / (b.abs() + 1), (x, y)),
    "integer_remainder": lambda: (lambda a, b: a % b, (torch.arange(1, 9), torch.arange(3, 11))),
    "powers": lambda: (lambda a: a.abs().sqrt() + a.exp() + (a.abs() + 1).log() + a.sin() * a.cos(), (x,)),
    "activations": lambda: (lambda a: F.relu(a) + torch.sigmoid(a) + torch.tanh(a) + F.silu(a) + F.gelu(a), (x,)),
    "gelu_tanh": lambda: (lambda a: F.gelu(a, approximate="tanh"), (x,)),
    "comparisons": lambda: (lambda a, b: torch.where(a > b, a, b) + (a <= 0).float() + (a == b).float(), (x, y)),
    "logic": lambda: (lambda a, b: ((a > 0) & (b > 0)) | ~(a > b), (x, y)),
    "rounding": lambda: (lambda a: (a * 3).floor() + (a * 3).ceil() + torch.round(a * 3), (x,)),
    "clamp": lambda: (lambda a: a.clamp(-0.5, 0.5), (x,)),
    "matmul": lambda: (lambda a, b: a @ b.t(), (x, y)),
    "bmm": lambda: (lambda a: torch.bmm(a, a.transpose(1, 2)), (torch.randn(3, 4, 5),)),
    "linear": lambda: (lambda a, w: F.linear(a, w, w[0]), (x, sq)),
    "sum": lambda: (lambda a: a.sum() + a.sum(1) + a.sum((0, 1), keepdim=True)[0], (x,)),
    "mean": lambda: (lambda a: a.mean(-1, keepdim=True), (x,)),
    "max_with_index": lambda: (lambda a: a.max(1), (x,)),
    "argmax": lambda: (lambda a: a.argmax(-1), (x,)),
    "any_all": lambda: (lambda a: ((a > 1).any(), (a > -9).all()), (x,)),
    "cumsum": lambda: (lambda a: a.cumsum(1), (x,)),
    "softmax": lambda: (lambda a: F.softmax(a, -1) + F.log_softmax(a, -1), (x,)),
    "layer_norm": lambda: (lambda a, w: F.layer_norm(a, (6,), w[0], w[1]), (x, sq)),
    "reshape": lambda: (lambda a: a.view(2, 12).t().reshape(6, 4) + 1, (x,)),
    "permute": lambda: (lambda a: a.permute(0, 2, 3, 1) * 2, (image,)),
    "cat_stack": lambda: (lambda a, b: torch.cat([torch.cat([a, b], 1), torch.stack([a, b], 1).view(4, 12)]), (x, y)),
    "split": lambda: (lambda a: torch.split(a, [1, 2, 3], 1)[2] + 1, (x,)),
    "chunk_unbind": lambda: (lambda a: a.chunk(2, 1)[0].sum() + a.unbind(0)[1], (x,)),
    "slice": lambda: (lambda a: a[1:3, ::2] * 2, (x,)),
    "select_squeeze": lambda: (lambda a: a.unsqueeze(0).squeeze(0)[1] + a.select(1, 2).sum(), (x,)),
    "expand_repeat": lambda: (lambda a: a[:1].expand(4, 6) + a.repeat(2, 1)[:4], (x,)),
    "gather": lambda: (lambda a, i: a.gather(0, i) + 1, (x, index)),
    "index_select": lambda: (lambda a, i: a.index_select(0, i) + 1, (x, rows)),
    "index": lambda: (lambda a, i: a[i] + 1, (x, rows)),
    "embedding": lambda: (lambda a, i: F.embedding(i, a) + 1, (x, rows)),
    "masked_fill": lambda: (lambda a, m: a.masked_fill(m, -7.0) + 1, (x, mask)),
    "scatter": lambda: (lambda a, i, b: a.scatter(0, i, b) + 1, (x, index, y)),
    "topk_sort": lambda: (lambda a: (a.topk(2, 1)[0], a.sort(1, descending=True)[0]), (x,)),
    "tril_triu": lambda: (lambda a: a.tril() + a.triu(1), (sq,)),
    "arange": lambda: (lambda a: a + torch.arange(6, device=a.device), (x,)),
    "full": lambda: (lambda a: a + torch.full((6,), 2.0, device=a.device), (x,)),
    "cast": lambda: (lambda a: (a * 10).to(torch.int32).float() + a.half().float() + a.bfloat16().float(), (x,)),
    "pad": lambda: (lambda a: F.pad(a, (1, 2, 0, 1), value=3.0) + 1, (x,)),
    "flip_roll": lambda: (lambda a: a.flip(1) + 1, (x,)),
    "conv2d": lambda: (lambda a, k: F.conv2d(a, k, stride=2, padding=1), (image, kernel)),
    "avg_pool": lambda: (lambda a: F.avg_pool2d(a, 2, padding=1), (image,)),
    "max_pool": lambda: (lambda a: F.max_pool2d(a, 2), (image,)),
    "group_norm": lambda: (lambda a: F.group_norm(a, 2), (image,)),
    "batch_norm": lambda: (lambda a, m: F.batch_norm(a, m[0, :4], m[1, :4].abs() + 1), (image, sq)),
    "copy_into_input": lambda: (lambda a, b: a.copy_(b * 2) + 1, (x.clone(), y)),
    "add_into_input": lambda: (lambda a, b: a.add_(b) * 2, (x.clone(), y)),
}
outcome = {}
for name, make in FUNCTIONS.items():
    function, arguments = make()
    torch._dynamo.reset()
    config = CompilerConfig()
    compiled = torch.compile(function, backend=torchair.get_npu_backend(compiler_config=config), dynamic=False)
    on_npu = [a.clone().npu() for a in arguments]
    on_cpu = [a.clone() for a in arguments]
    try:
        with torch.no_grad():
            got, wanted = compiled(*on_npu), function(*on_cpu)
        flat = lambda r: list(r) if isinstance(r, (tuple, list)) else [r]
        for a, b in zip(flat(got) + on_npu, flat(wanted) + on_cpu, strict=True):
            torch.testing.assert_close(a.cpu(), b, atol=2e-3, rtol=2e-3)
        outcome[name] = "equal"
    except Exception as error:
        outcome[name] = type(error).__name__ + ": " + " ".join(str(error).split())[:300]
print("OUTCOME " + json.dumps(outcome))
"""


def test_functions_through_max_autotune_equal_the_cpu(program: Program) -> None:
    done = program(FUNCTIONS, timeout_s=280)
    lines = [line for line in done.stdout.splitlines() if line.startswith("OUTCOME ")]
    assert lines, done.stdout[-500:] + done.stderr[-3000:]
    outcome = json.loads(lines[-1].removeprefix("OUTCOME "))
    assert {name: text for name, text in outcome.items() if text != "equal"} == {}
    assert len(outcome) > 40
