"""Whether Inductor can generate kernels for a device; a refusal says what is missing."""

from __future__ import annotations

import torch

from air_aclgraph.errors import Unsupported
from air_graph.errors import first_line


def refuse_absent(device: torch.device) -> None:
    """Raises where no generator of Inductor's serves the device, or where its compiler is missing."""
    from torch._inductor.codegen.common import get_scheduling_for_device, init_backend_registration

    init_backend_registration()
    if get_scheduling_for_device(device.type) is None:
        vendor = "torch_npu" if device.type == "npu" else "the device's vendor"
        what = f"Inductor has no kernel generator for {device.type}"
        raise _refused(device, what, f"install the one of {vendor}")
    if device.type == "cpu":
        _refuse_without_compiler(device)
    elif device.type == "cuda":
        from torch.utils._triton import has_triton

        if not has_triton():
            raise _refused(
                device, "Triton, which writes Inductor's kernels for cuda, is missing", "install triton"
            )


def _refuse_without_compiler(device: torch.device) -> None:
    from torch._inductor.cpp_builder import get_cpp_compiler

    try:
        get_cpp_compiler()
    except Exception as error:
        raise _refused(
            device,
            f"Inductor finds no C++ compiler: {first_line(error)}",
            "install g++ or clang, or name one in CXX",
        ) from error


def _refused(device: torch.device, what: str, advice: str) -> Unsupported:
    return Unsupported(
        f"air.kernels = 'inductor': {what}",
        advice=f"{advice}, or leave air.kernels at 'aten'",
        option="air.kernels",
        runtime=device.type,
    )
