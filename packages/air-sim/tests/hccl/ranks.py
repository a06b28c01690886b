"""The beginning of programs that run as two ranks of an HCCL group."""

from __future__ import annotations

PRELUDE = """
import os, socket, sys, torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.testing import assert_close

RANKS = 2

def start(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", rank=rank, world_size=RANKS)

def value(rank, *shape, step=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(100 * step + rank))

def captured(body):
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        body()
    return graph

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]

def launch(main):
    # forks: the process that starts them has used no device
    mp.start_processes(main, args=(free_port(),), nprocs=RANKS, start_method="fork")
    print("all ranks agree")
"""
