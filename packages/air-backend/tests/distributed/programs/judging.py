"""How random programs are judged in several ranks: drawn from a seed, compared with eager, told by rank 0.

What eager refuses is not judged; what `aot_eager` refuses, or computes otherwise than eager, is torch's own and
counted.
"""

from __future__ import annotations

import argparse
import datetime
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor

from air_backend.demo import parallel
from distributed.programs.leaving import leave
from distributed.programs.setting import CALLS, Setting

MODES = ("reduce-overhead", "max-autotune")
LIMIT = datetime.timedelta(seconds=120)


class Program(Protocol):
    """A function drawn from a seed, the same in every rank; `str` tells its lines."""

    is_trained: bool
    is_dynamic: bool
    """Whether its sizes differ from call to call."""

    def __call__(self, *inputs: Any) -> Sequence[Any]: ...

    def inputs(self, call: int) -> list[Any]: ...


def difference(ours: Sequence[Any], theirs: Sequence[Any]) -> str | None:
    """How two lists of values differ."""
    for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if type(one) is not type(other):
            return f"value {index} is a {type(one).__name__} instead of a {type(other).__name__}"
        if isinstance(one, DTensor):
            if one.placements != other.placements or one.shape != other.shape:
                return f"value {index} has {one.placements} of {one.shape} instead of {other.placements}"
            one, other = one.to_local(), other.to_local()
        if one is None:
            continue
        if one.shape != other.shape or not torch.allclose(one, other, rtol=1e-3, atol=1e-3, equal_nan=True):
            return f"value {index} differs"
    return None


def run(program: Program, function: Callable[..., Any], call: int) -> tuple[list[Any], list[Any]]:
    """What a call gives, and what there is to see beside it: the inputs, and the gradients of what is trained."""
    given = program.inputs(call)
    if program.is_trained:
        given = [one.requires_grad_() for one in given]
    found = [one.clone() if isinstance(one, AsyncCollectiveTensor) else one for one in function(*given)]
    if not program.is_trained:
        return found, given
    roots = [one for one in found if one.requires_grad]
    if roots:
        torch.autograd.backward(roots, [torch.full_like(one, 1 + index) for index, one in enumerate(roots)])
    return [one.detach() for one in found], [*(one.detach() for one in given), *(one.grad for one in given)]


def agreed(told: str | None) -> str | None:
    """What the first rank says that has something to say: all ranks go the same way."""
    said: list[str | None] = [None] * dist.get_world_size()
    dist.all_gather_object(said, told)
    return next((one for one in said if one is not None), None)


def verdict(program: Program, function: Callable[..., Any]) -> str | None:
    """What is wrong with some calls of a compiled program, at once or with results kept; None where nothing is."""
    kept: list[tuple[list[Any], list[Any]]] = []
    for call in range(CALLS):
        expected = run(program, program, call)
        try:
            found = run(program, function, call)
            told = difference([*found[0], *found[1]], [*expected[0], *expected[1]])
        except Exception as error:
            told = f"{type(error).__name__}: {str(error)[:300]}"
        if (said := agreed(told)) is not None:
            return f"call {call}: {said}"
        kept.append((found[0], expected[0]))
    changed = [difference(*pair) for pair in kept]
    return agreed(
        next((f"kept from call {call}: {one}" for call, one in enumerate(changed) if one is not None), None)
    )


def judged(program: Program, setting: Setting) -> tuple[str, str]:
    """One program: equal, refused by eager, torch's own, or different, with what is to be said."""
    torch._dynamo.reset()
    with torch.set_grad_enabled(program.is_trained):
        try:
            refused = None
            run(program, program, 0)
        except Exception as error:
            refused = str(error)
        if (why := agreed(refused)) is not None:
            return "refused by eager", why
        told = verdict(program, setting.compiled(program, fullgraph=False, dynamic=program.is_dynamic))
        if told is None:
            return "equal", ""
        torch._dynamo.reset()
        aot = torch.compile(program, backend="aot_eager", dynamic=program.is_dynamic)
        return ("different" if verdict(program, aot) is None else "torch's own"), told


def main(drawn: Callable[[int, DeviceMesh], Program], arguments: Sequence[str] | None = None) -> None:
    """Judges as many programs as the command line asks for, one mode after the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", choices=tuple(parallel.BACKENDS))
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--programs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--loud", action="store_true", help="name each program before it runs")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")
    device = parallel.device_of(options.device)
    dist.init_process_group(parallel.BACKENDS[options.device], timeout=LIMIT)
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    counts: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.programs):
        mode = options.modes[seed % len(options.modes)]
        program = drawn(seed, mesh)
        if options.loud and dist.get_rank() == 0:
            print(f"program {seed}, {mode}\n{program}", flush=True)
        how, told = judged(program, Setting(device, mode))
        counts[how] += 1
        if how in ("different", "torch's own") and dist.get_rank() == 0:
            print(f"seed {seed}, {mode}, {how}: {told}\n{program}", flush=True)
    if dist.get_rank() == 0:
        print("programs: " + ", ".join(f"{count} {how}" for how, count in sorted(counts.items())), flush=True)
    leave(device, 1 if counts["different"] else 0)
