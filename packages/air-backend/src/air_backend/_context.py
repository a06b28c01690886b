"""Where a graph is compiled: the facts that the rules between options look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import fx

import air_config
from air_aclgraph import static_kernel
from air_backend._ground import npu_present
from air_geir.gears import find_gears
from air_graph import ranks

SEND_OR_RECEIVE: Final = ("send", "recv", "isend", "irecv", "batch_p2p")


def context_of(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    ground: torch.device,
    *,
    multi_stream: bool,
    buckets: bool,
    training: bool,
    compile_cache: bool = False,
    static_kernels: bool = False,
) -> air_config.Context:
    """The context of one graph on its ground; what only static kernels ask for is looked up for them alone."""
    soc, cann = _chip() if ground.type == "npu" else (None, None)
    limit = torch.ops.air_streams.core_limit_enter.default
    return air_config.Context(
        device=ground.type,
        npu_elsewhere=ground.type == "cpu" and npu_present(),
        soc=soc,
        cann=cann,
        multi_stream=multi_stream,
        core_limits=bool(gm.graph.find_nodes(op="call_function", target=limit)),
        dynamic=any(
            isinstance(node.meta.get("val"), torch.SymInt) for node in gm.graph.find_nodes(op="placeholder")
        ),
        gears=bool(find_gears(example_inputs)),
        buckets=buckets,
        point_to_point=_is_point_to_point(gm),
        training=training,
        compile_cache=compile_cache,
        world_size=ranks.rank_and_size()[1],
        profiler=_profiler() if static_kernels else None,
        local_world_sizes=static_kernel.local_world_sizes() if static_kernels else (),
    )


def _chip() -> tuple[str | None, str | None]:
    """The name of the chip and the version of CANN, as torch_npu reports them."""
    import torch_npu.npu.utils

    version = torch_npu.npu.utils.get_cann_version()
    return torch.get_device_module("npu").get_device_name(), version or None


def _profiler() -> air_config.ProfilerState | None:
    """The profiler that is on and records operator arguments."""
    skipped = static_kernel.first_step_skipped()
    return None if skipped is None else air_config.ProfilerState(record_op_args=True, skip_first=skipped)


def _is_point_to_point(gm: fx.GraphModule) -> bool:
    called = (node.target for node in gm.graph.nodes if node.op == "call_function")
    return any(getattr(target, "_opname", "") in SEND_OR_RECEIVE for target in called)
