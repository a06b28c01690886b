"""Programs of `torch.export` as what a backend or a compiler is given: called as the module that was exported."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.export import Dim, ExportedProgram, export

from air_backend import compile_fx, get_npu_backend, npugraph_ex
from air_backend._backend import air

MODES = ("reduce-overhead", "max-autotune")


class Counting(nn.Module):
    """Parameters, a buffer that it writes, a keyword, and a structure as result."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(1))
        self.calls: Tensor

    def forward(self, x: Tensor, *, shift: Tensor) -> dict[str, Tensor]:
        self.calls.add_(1)
        return {"out": self.linear(x).relu() + shift, "calls": self.calls * 1}


def exported(**options: Any) -> tuple[Counting, ExportedProgram]:
    model = Counting().eval()
    return copy.deepcopy(model), export(model, (torch.randn(3, 4),), {"shift": torch.ones(4)}, **options)


def same_as(model: nn.Module, run: Callable[..., Any], *rows: int) -> None:
    with torch.no_grad():
        for count in rows:
            x, shift = torch.randn(count, 4), torch.randn(4)
            torch.testing.assert_close(run(x, shift=shift), model(x, shift=shift))


@pytest.mark.parametrize("mode", MODES)
def test_A24_compile_fx_takes_a_program_with_its_parameters_buffers_and_structures(mode: str) -> None:
    model, program = exported()
    same_as(model, compile_fx(program, options={"mode": mode}), 3, 3, 3)


def test_A24_a_program_whose_sizes_are_dynamic_is_called_with_any_of_them() -> None:
    model, program = exported(dynamic_shapes={"x": {0: Dim("rows", min=2, max=16)}, "shift": None})
    counters["air"].clear()
    same_as(model, compile_fx(program, options={"mode": "reduce-overhead"}), 3, 5, 7, 5, 3)
    assert counters["air"]["graphs"] == 2  # the sizes of the first call, then any


def test_A24_a_backend_takes_a_program_and_keeps_its_mode_and_options() -> None:
    model, program = exported()
    counters["air"].clear()
    same_as(model, air(program, [], mode="reduce-overhead"), 3, 3)
    assert counters["air"]["captures"] == 1
    model, program = exported()
    same_as(model, get_npu_backend()(program, [], options={"mode": "max-autotune"}), 3, 3)
    assert counters["air"]["captures"] == 1


def test_N27_compile_fx_of_npugraph_ex_takes_a_program() -> None:
    model, program = exported()
    same_as(model, npugraph_ex.compile_fx(program), 3, 3, 3)
