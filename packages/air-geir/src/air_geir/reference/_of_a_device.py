"""The reference engine for tensors of a device: they are copied to the host, and what it computes is copied back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from air_geir.program import ArgInput, Program

Run = Callable[..., Sequence[Tensor]]


def for_its_device(run: Run, program: Program) -> Run:
    """`run` for the tensors of a program, which may lie on a device."""
    promised = (*program.promises, *program.argument_promises)
    kinds = {promise.device for promise in promised if promise is not None and promise.device is not None}
    kind = next(iter(sorted(kinds - {"cpu"})), None)
    if kind is None:
        return run
    args = program.written_args()
    written = [at for at, one in enumerate(program.inputs) if isinstance(one, ArgInput) and one.arg in args]

    def call(inputs: Sequence[Tensor], assigned: Sequence[Tensor | None]) -> Sequence[Tensor]:
        copies: dict[int, Tensor] = {}

        def copied(value: Tensor) -> Tensor:
            return copies.setdefault(id(value), value.cpu())

        given = [copied(value) for value in inputs]
        targets = [None if value is None else copied(value) for value in assigned]
        results = run(given, targets)
        for at in written:
            inputs[at].copy_(given[at])
        own: dict[int, Tensor] = {}
        for value, copy in zip(assigned, targets, strict=True):
            if value is not None and copy is not None:
                own[id(copy)] = value.copy_(copy)
        return [own[id(result)] if id(result) in own else result.to(torch.device(kind)) for result in results]

    return call
