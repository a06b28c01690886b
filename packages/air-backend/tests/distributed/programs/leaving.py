"""How a rank ends.

gloo's threads may still drop the last operation's tensors when the process ends; they need the interpreter for that,
and torch aborts the process where it is going away (its pull request 179291). Functional collectives keep the group,
and so the threads, even after `destroy_process_group`. A rank on gloo has told all it has to tell by then: it ends
without taking the interpreter down.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist


def leave(device: torch.device, code: int = 0) -> None:
    """Ends this process with a code, after the work of the device is done and all ranks are here."""
    if device.type != "cpu":
        torch.accelerator.synchronize()
    dist.destroy_process_group()
    if device.type == "cpu":
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)
