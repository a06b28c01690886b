"""The model of the multi-stream guide, and programs written once with tags and once with native objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

import air_streams as tng
from air_streams import StreamPlan

GUIDE_PLAN = """\
entry: %4 = aten.add.Tensor(%0, %1)
entry: record event0
stream1: wait event0
stream1: %5 = aten.mm.default(%2, %3)
stream1: record event1
stream1: %6 = aten.add.Tensor(%2, %3)
stream1: record event2
stream1: keep %6
entry: %7 = aten.mm.default(%2, %3)
entry: %8 = aten.ones.default()
entry: %9 = aten.add.Tensor(%8)
stream2: wait event1
stream2: %10 = aten.add.Tensor(%2, %3)
stream2: record event3
entry: wait event2
entry: wait event3"""

DEPENDENT_PLAN = """\
entry: %4 = aten.add.Tensor(%0, %1)
entry: record event0
stream1: wait event0
stream1: %5 = aten.mm.default(%4, %2)
stream1: keep %4
stream1: record event1
entry: %6 = aten.mm.default(%3, %2)
stream2: wait event1
stream2: %7 = aten.add.Tensor(%5, %2)
stream2: record event2
entry: wait event2"""


class GuideModel(torch.nn.Module):
    """As a user writes it, device and size as parameters."""

    def __init__(self, device: str = "cpu", size: int = 8) -> None:
        super().__init__()
        self.device = device
        self.size = size
        self.tagged_event1 = tng.ops.npu_create_tagged_event(tag="66")
        self.tagged_event2 = tng.ops.npu_create_tagged_event(tag="77")

    def forward(
        self, in1: torch.Tensor, in2: torch.Tensor, in3: torch.Tensor, in4: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        add_result = torch.add(in1, in2)
        tng.ops.npu_tagged_event_record(self.tagged_event1)
        with tng.scope.npu_stream_switch("1"):
            tng.ops.npu_tagged_event_wait(self.tagged_event1)
            mm_result = torch.mm(in3, in4)
            tng.ops.npu_tagged_event_record(self.tagged_event2)
            B = in3 + in4
            tng.ops.npu_record_tagged_stream(B, "1")
        mm1 = torch.mm(in3, in4)
        del B
        C = torch.ones(self.size, self.size, dtype=torch.float16, device=self.device)
        C.add_(2)
        with tng.scope.npu_stream_switch("2"):
            tng.ops.npu_tagged_event_wait(self.tagged_event2)
            add2 = torch.add(in3, in4)
        return add_result, mm_result, mm1, add2, C


class DependentModel(torch.nn.Module):
    """The same shape of program, but every wait and the record_stream are there for data."""

    def __init__(self) -> None:
        super().__init__()
        self.added = tng.ops.npu_create_tagged_event(tag="66")
        self.multiplied = tng.ops.npu_create_tagged_event(tag="77")

    def forward(
        self, in1: torch.Tensor, in2: torch.Tensor, in3: torch.Tensor, in4: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        B = torch.add(in1, in2)
        tng.ops.npu_tagged_event_record(self.added)
        with tng.scope.npu_stream_switch("1"):
            tng.ops.npu_tagged_event_wait(self.added)
            mm_result = torch.mm(B, in4)
            tng.ops.npu_record_tagged_stream(B, "1")
            tng.ops.npu_tagged_event_record(self.multiplied)
        del B
        mm1 = torch.mm(in3, in4)
        with tng.scope.npu_stream_switch("2"):
            tng.ops.npu_tagged_event_wait(self.multiplied)
            add2 = torch.add(mm_result, in4)
        return mm_result, mm1, add2


def inputs(size: int = 8, dtype: torch.dtype = torch.float16) -> list[torch.Tensor]:
    source = torch.Generator().manual_seed(0)
    return [torch.randn(size, size, generator=source).to(dtype) for _ in range(4)]


class Backend:
    """A torch.compile backend that keeps the graphs and the plans, and runs the graph as it is."""

    def __init__(self, sync: str = "check") -> None:
        self.sync = sync
        self.dynamo: list[GraphModule] = []
        self.graphs: list[GraphModule] = []
        self.plans: list[StreamPlan] = []

    def __call__(self, gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        tng.normalize(gm)
        self.dynamo.append(gm)
        compiled: Callable[..., Any] = aot_autograd(
            fw_compiler=self._compile, keep_inference_input_mutations=True
        )(gm, example_inputs)
        return compiled

    def _compile(self, gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.plans.append(StreamPlan.of(gm, sync=self.sync))
        self.graphs.append(gm)

        def boxed(args: list[Any]) -> Any:
            given = list(args)
            args.clear()
            return gm(*given)

        boxed._boxed_call = True  # type: ignore[attr-defined]  # the mark AOTAutograd looks for
        return boxed


def compiled(
    function: Callable[..., Any], *args: Any, dynamic: bool = False, sync: str = "check"
) -> tuple[Any, Backend]:
    """The result of a compiled call, and the backend with its graphs and plans."""
    torch._dynamo.reset()
    backend = Backend(sync)
    result = torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)(*args)
    return result, backend
