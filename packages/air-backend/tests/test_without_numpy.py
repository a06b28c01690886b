"""Where numpy is not installed, as after `pip install` of torch and AIR alone, exports, dumps and reports work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: torch asks for numpy once, when it is imported, so numpy has to be out of reach before that.
PROGRAM = """
import os, sys
sys.modules["numpy"] = None
import torch
from air_backend import dynamo_export, explain
from air_config import CompilerConfig
try:
    torch.ones(2).numpy()
except RuntimeError:
    pass
else:
    raise AssertionError("torch has found numpy")

table = torch.tensor([1.0, 2.0, 3.0, 4.0])


def function(x):
    return x * table + torch.arange(4)


def compiled(mode, **options):
    options = {name.replace("__", "."): value for name, value in options.items()}
    torch._dynamo.reset()
    torch.compile(function, backend="air", options={"mode": mode, **options})(torch.ones(4))


explain(function, torch.ones(4)).save("report.html")
dynamo_export(torch.ones(1, 4), model=torch.nn.Linear(4, 2), export_path="exported", export_name="model")
for folder in ("text", "eager", "engine", "replay"):
    os.mkdir(folder)
compiled("max-autotune", debug__graph_dump__type="txt", debug__graph_dump__path="text")
compiled("max-autotune", debug__data_dump__type="npy", debug__data_dump__path="eager")
compiled("max-autotune", dump_config__enable_dump=True, dump_config__dump_path="engine")
compiled("reduce-overhead", dump_config__enable_dump=True, dump_config__dump_path="replay")
os.environ["TORCH_COMPILE_DEBUG"] = "1"
compiled("max-autotune")
"""
FILES = (
    "report.html",
    "exported/*.air",
    "text/*.txt",
    "eager/**/*.npy",
    "engine/**/*.npy",
    "replay/**/*.pt",
    "torch_compile_debug/**/*_ge_optimized.txt",
)


def test_exports_dumps_and_reports_need_no_numpy(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr
    assert [pattern for pattern in FILES if not list(tmp_path.glob(pattern))] == []
