"""Cases of parallel models in both modes, under torchrun: each says on rank 0 that it equals one process.

torchrun --nproc-per-node 2 parallel_models.py --cases dtensor --device cpu
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import traceback
import warnings
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch._dynamo.utils import counters

from air_backend.demo import parallel
from distributed.programs.leaving import leave
from distributed.programs.setting import Case, Setting

MODES = ("reduce-overhead", "max-autotune")
LIMIT = datetime.timedelta(seconds=120)
TABLES = {
    "dtensor": "distributed.programs.dtensor_cases",
    "models": "distributed.programs.model_cases",
    "experts": "distributed.programs.expert_cases",
    "pipeline": "distributed.programs.pipeline_cases",
}


def equal(name: str, case: Case, setting: Setting) -> bool:
    """Whether a case is, in every rank, what it is in one process; rank 0 says so."""
    torch._dynamo.reset()
    counters["air"].clear()
    torch.manual_seed(0)
    failed = torch.zeros(1, device=setting.device)
    try:
        case(setting)
    except Exception:
        traceback.print_exc()
        failed += 1
    dist.all_reduce(failed)
    fine = not failed.item()
    if setting.rank == 0:
        counts = {what: count for what, count in counters["air"].items() if "seconds" not in what}
        told = ", ".join(f"{what} {count}" for what, count in counts.items())
        print(f"{name}, {setting.mode}: {'equal' if fine else 'FAILED'} ({told})", flush=True)
    return fine


def all_equal(device: torch.device, modes: Sequence[str], tables: Sequence[str], only: Sequence[str]) -> bool:
    """Whether those cases of the tables whose names have one of the parts `only` are equal in every mode."""
    fine = True
    for table in tables:
        for name, case in importlib.import_module(TABLES[table]).CASES.items():
            for mode in modes if any(part in name for part in only) else ():
                fine &= equal(name, case, Setting(device, mode))
    return fine


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", choices=tuple(parallel.BACKENDS))
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--cases", nargs="+", default=("dtensor",), choices=tuple(TABLES))
    parser.add_argument("--only", nargs="+", default=("",), help="parts of the names of cases")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", category=FutureWarning)
    device = parallel.device_of(options.device)
    dist.init_process_group(parallel.BACKENDS[options.device], timeout=LIMIT)
    fine = all_equal(device, options.modes, options.cases, options.only)
    leave(device, 0 if fine else 1)


if __name__ == "__main__":
    main()
