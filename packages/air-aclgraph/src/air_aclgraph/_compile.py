"""The two ways to run an optimised graph: captured, or as one straight Python function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Node

from air_aclgraph._eager import EagerRun, EagerRunWithKernels
from air_aclgraph._executable import Executable
from air_aclgraph._key import key_function
from air_aclgraph._lowering import PlanLowering
from air_aclgraph._making import Making
from air_aclgraph._objects import refuse_frozen_state
from air_aclgraph._options import Options
from air_aclgraph._plan import plan_resources
from air_aclgraph._progress import Reporting, progress_of
from air_aclgraph._reach import with_reach
from air_aclgraph._reshaped import refuse_reshaped_inputs
from air_aclgraph._runtime import Runtime
from air_aclgraph._slots import Slot, classify
from air_aclgraph._straight import Lowering, straighten
from air_aclgraph._uncapturable import refuse_made_anew, refuse_no_memory, refuse_registered
from air_aclgraph._update import UpdatePlan, accepts, plan_updates
from air_aclgraph.buckets import Bucket, find_buckets, proven_buckets
from air_aclgraph.buckets._padded import PaddedExecutable
from air_aclgraph.device import AcceleratorRuntime
from air_aclgraph.errors import InputRefused
from air_aclgraph.fused import Fused, Ground, fuse, refuse_absent
from air_aclgraph.host import HostRuntime
from air_aclgraph.host._generated import why_unknown
from air_aclgraph.static_kernel import CannToolkit, StaticKernels
from air_aclgraph.static_kernel import Options as KernelOptions
from air_graph import example_tensors, with_index
from air_graph import source_of as where
from air_graph import static_inputs as inputs_that_stay
from air_streams import NAMESPACE, StreamPlan

if TYPE_CHECKING:
    from air_config import Settings

AnyExecutable: TypeAlias = Executable | PaddedExecutable
"""What a graph with captures is compiled to."""

_RUNTIMES: dict[torch.device, Runtime] = {}


def runtime_for(device: torch.device | str) -> Runtime:
    """The shared runtime of a device: its captures share one memory pool."""
    device = with_index(device)
    if device not in _RUNTIMES:
        _RUNTIMES[device] = HostRuntime() if device.type == "cpu" else AcceleratorRuntime(device)
    return _RUNTIMES[device]


@contextmanager
def use_runtime(runtime: Runtime) -> Iterator[Runtime]:
    """Graphs compiled inside run on this runtime, instead of the shared one of its device.

    `HostRuntime(order="shuffled")` runs every replay in another order that the streams and events allow.
    """
    shared = _RUNTIMES.get(runtime.device)
    _RUNTIMES[runtime.device] = runtime
    try:
        yield runtime
    finally:
        del _RUNTIMES[runtime.device]
        if shared is not None:
            _RUNTIMES[runtime.device] = shared


def compile_graph(
    gm: GraphModule,
    example_inputs: Sequence[object],
    *,
    settings: Settings | None = None,
    plan: StreamPlan | None = None,
    runtime: Runtime | None = None,
    static_inputs: Sequence[int] | None = None,
    name: str = "graph",
    buckets: Sequence[Bucket] | None = None,
    reads_lent: bool = False,
) -> AnyExecutable:
    """Prepares an inference graph of AOTAutograd for capture; the first call of each shape captures.

    `static_inputs` are the indices of inputs that keep their address (parameters, buffers); without them those
    are taken that AOTAutograd says are static, when the call is made inside a compilation.  `plan` carries the
    streams of the graph; without one everything runs on one stream.  `buckets` are those that were proven on the
    graph before passes changed it; without them they are looked for on the example inputs.  `reads_lent` says that this
    is the backward half of a training step, or a piece of the forward half: it reads where it lies what the forward
    half, or an earlier piece, lends it.
    """
    if buckets is None:
        buckets = proven_buckets(gm, find_buckets(example_inputs))
    runtime = runtime or runtime_for(device_of(gm, example_inputs))
    options = Options.of(settings)
    refuse_reshaped_inputs(gm)
    refuse_registered(gm)
    refuse_no_memory(gm)
    if runtime.device.type != "cpu":
        refuse_frozen_state(gm, runtime.device.type)
        refuse_made_anew(gm)
    static = set(inputs_that_stay(gm) if static_inputs is None else static_inputs)
    slots = classify(gm, example_inputs, static, runtime.device, clone_input=options.clone_input)
    slots = with_reach(slots, gm)
    if plan is None and any(getattr(n.target, "namespace", "") == NAMESPACE for n in gm.graph.nodes):
        plan = StreamPlan.of(gm)
    updates = plan_updates(gm, slots, runtime)
    _refuse_host_tensors(slots, updates)
    strict = options.strict_priorities
    resources = plan_resources(gm, plan, 0 if updates is None else len(updates.calls))
    fused = _fused(gm, runtime) if options.kernels == "inductor" else None
    if fused is not None and fused.regions and plan is not None:
        plan = plan.read_again(gm, sync="off")
    lowering: Lowering | None = None if plan is None else PlanLowering(plan, runtime, strict=strict)
    substitutes = _higher_order(gm, runtime)
    if updates is not None:
        substitutes.update(updates.substitutes(runtime))
    progress = progress_of(list(gm.graph.nodes))
    if progress is not None:
        lowering = Reporting(lowering or Lowering(), progress)
    body = straighten(gm, lowering=lowering, substitutes=substitutes)
    body.progress, body.fused = progress, fused
    kernels = static_kernels_of(settings, runtime.device)
    making = Making(gm, body, slots, runtime, options, name, updates, reads_lent=reads_lent)
    if buckets:
        return PaddedExecutable(gm, buckets, making, resources, kernels)
    return Executable(making, resources, kernels)


def _fused(gm: GraphModule, runtime: Runtime) -> Fused:
    """Puts calls of Inductor's kernels in the place of the operators that they fuse."""
    refuse_absent(runtime.device)
    if isinstance(runtime, HostRuntime):
        return fuse(gm, runtime.device, Ground(runtime.generated, why_unknown))
    return fuse(gm, runtime.device, Ground(is_late=runtime.is_recording))


def _higher_order(gm: GraphModule, runtime: Runtime) -> dict[Node, Callable[..., Any]]:
    """What runs instead of the higher-order operators of a graph."""
    nodes = (node for node in gm.graph.nodes if isinstance(node.target, HigherOrderOperator))
    found = {node: runtime.higher_order(node) for node in nodes}
    return {node: call for node, call in found.items() if call is not None}


def static_kernels_of(settings: Settings | None, device: torch.device) -> StaticKernels | None:
    """What compiles the operators of one graph for its shapes, when the settings ask for it."""
    wanted = KernelOptions.of(settings)
    return None if wanted is None else StaticKernels(wanted, CannToolkit(device))


def _refuse_host_tensors(slots: Sequence[Slot], updates: UpdatePlan | None) -> None:
    for slot in slots:
        if not accepts(slot, updates):
            raise InputRefused(
                f"input {slot.name!r} is a CPU tensor that an operator of the captured graph reads on the host: "
                "its values would be frozen at capture",
                where=where(next(iter(slot.node.users), None)),
                advice="move it to the device before the call, or pass the numbers as ints",
                input=slot.name,
            )


def run_eagerly(
    gm: GraphModule,
    example_inputs: Sequence[object] = (),
    *,
    settings: Settings | None = None,
    plan: StreamPlan | None = None,
    name: str = "graph",
) -> EagerRun:
    """The graph as one straight Python function: every pass has acted, nothing is captured.

    With static kernels in the settings its operators are compiled at the first call of each shape. With a plan of
    several streams they run on them, forked from the caller's stream and joined to it; without one, in program order.
    """
    device = device_of(gm, example_inputs)
    runtime = runtime_for(device) if plan is not None and plan.is_multi_stream else None
    strict = Options.of(settings).strict_priorities
    lowering = None if plan is None or runtime is None else PlanLowering(plan, runtime, strict=strict)
    straight = straighten(gm, lowering=lowering)
    run = EagerRun(name, straight, None if runtime is None else _ordered(straight.function, runtime))
    kernels = static_kernels_of(settings, device)
    if kernels is None:
        return run
    slots = classify(gm, example_inputs, set(), device, clone_input=True)
    return EagerRunWithKernels(run, kernels, key_function(slots))


def _ordered(body: Callable[..., Any], runtime: Runtime) -> Callable[..., Any]:
    """`body`, whose steps are the runtime's: one run at a time, which leaves every stream that it entered."""

    def run(*args: object) -> Any:
        with runtime.lock:
            return runtime.run(body, args)

    return run


def device_of(gm: GraphModule, example_inputs: Sequence[object]) -> torch.device:
    """The one accelerator the graph computes on, or the CPU."""
    found = {v.device for v in example_inputs if isinstance(v, Tensor)}
    found.update(value.device for node in gm.graph.nodes for value in example_tensors(node))
    accelerators = {device for device in found if device.type not in ("cpu", "meta")}
    if len(accelerators) > 1:
        names = ", ".join(sorted(map(str, accelerators)))
        raise InputRefused(
            f"the graph spans {names}: a capture belongs to one device",
            advice="keep a compiled function on one device per process",
        )
    return accelerators.pop() if accelerators else torch.device("cpu")
