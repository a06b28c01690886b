"""One rank: compiles a model with static kernels, calls it twice, and prints what happened as a line of JSON.

ranks.py <build directory> [--alone RANK]      only that rank meets a second shape
                           [--deaf]            goes on when torchrun ends the job, to say what it saw
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
import warnings
from typing import Any

import air_sim

library = os.environ["ASCEND_OPP_PATH"]
air_sim.activate()  # to ask it what it saw; it names the library that all programs share
os.environ["ASCEND_OPP_PATH"] = library

import torch  # noqa: E402
import torch_npu  # noqa: E402

import air_backend  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("directory")
parser.add_argument("--alone", type=int)
parser.add_argument("--deaf", action="store_true")
given = parser.parse_args()
if given.deaf:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
rank = int(os.environ["RANK"])
torch_npu.npu.set_device(int(os.environ["LOCAL_RANK"]))
torch.distributed.init_process_group("gloo")

config = air_backend.CompilerConfig()
config.mode = "reduce-overhead"
config.experimental_config.aclgraph._aclnn_static_shape_kernel = True
config.experimental_config.aclgraph._aclnn_static_shape_kernel_build_dir = given.directory
torch.manual_seed(0)
model: Any = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).to("npu")
compiled: Any = torch.compile(
    model, backend=air_backend.get_npu_backend(compiler_config=config), dynamic=True
)

with warnings.catch_warnings(record=True) as caught, torch.no_grad():
    warnings.simplefilter("always")
    for size in (2, 3) if rank == given.alone else (2, 2):
        x = torch.randn(size, 16).to("npu")
        for _ in range(2):
            torch.testing.assert_close(compiled(x), model(x))
run: Any = air_backend._records.alive()[0][1]
answer = {
    "rank": rank,
    "reports": run.explain()["static kernels"],
    "kernels": air_sim.static_kernels(),
    "warnings": [str(w.message) for w in caught if w.category.__name__ == "StaticKernelWarning"],
    "ended": time.time(),
}
os.write(1, ("ANSWER " + json.dumps(answer) + "\n").encode())
if not given.deaf:
    torch.distributed.barrier()  # nobody leaves, and uninstalls, before the others have counted
    torch.distributed.destroy_process_group()
