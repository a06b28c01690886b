"""`config.air`: what AIR has beyond TorchAir. The prefix may be left out in flat options: `{"sync": "auto"}`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from air_config import _areas as area
from air_config._kinds import integer, seconds, texts
from air_config._option import Group, group, option, subgroup
from air_config._path_kinds import directory

__all__ = ["Air", "AirCache", "AirStaticKernel"]

STATIC: Final = "experimental_config.aclgraph._aclnn_static_shape_kernel"


@group("air.cache", area.CAPTURE, "experimental")
class AirCache(Group):
    """What is kept, and how much of it."""

    limit_bytes: int | None = option(
        None,
        "Device bytes that the captured graphs of one backend may hold; the least recently used are dropped. "
        "None sets no bound by bytes (`debug.aclgraph.static_capture_size_limit` bounds by count).",
        integer(1),
    )
    save: bool = option(
        False,
        "Keep what AOTAutograd traced in torch's cache on disk, so that another process that compiles the same graph "
        "skips the tracing, and what the graph engine compiled of it; torch.compiler.save_cache_artifacts() takes both "
        "along.",
        area=area.FRONT,
    )


@group("air.static_kernel", area.STATIC_KERNEL, "experimental", needs=STATIC)
class AirStaticKernel(Group):
    """How static kernels are compiled and where they go."""

    time_limit_s: float | None = option(
        1800.0,
        "Seconds after which a compilation is ended and the graph runs without static kernels; None waits.",
        seconds(),
    )
    jobs: int | None = option(
        None,
        "Compilations at the same time; None is one for each CPU this process may use.",
        integer(1, 4096),
    )
    cache_dir: str | None = option(
        None,
        "Directory of the kernel cache; None keeps it beside the products.",
        directory(writable=True),
    )
    blacklist: Sequence[str] = option(
        (), "Operators that are never compiled: parts of the names of their description files.", texts()
    )
    install_dir: str | None = option(
        None,
        "Private directory into which kernels are installed, instead of the operator library that all "
        "processes share.",
        directory(writable=True),
    )
    limit_bytes: int | None = option(
        None,
        "Bytes that kept products and cached kernels may take; the oldest are removed. None sets no bound.",
        integer(1),
    )


@group("air", area.CAPTURE, "experimental")
class Air(Group):
    """What AIR has beyond TorchAir."""

    engine: Literal["auto", "reference", "torchair_extension", "ge_session", "atc"] = option(
        "auto",
        "What compiles and runs an Ascend IR graph: the best present, our interpreter on the CPU, the extension "
        "in the torch_npu wheel, CANN's session through our own binding, or the atc command.",
        area=area.IR,
        status="beta",
    )
    unsupported: Literal["split", "error", "eager"] = option(
        "split",
        "What happens to operators without a conversion to Ascend IR: they run eagerly between compiled pieces, with "
        'one warning that names them, or one error lists them. "eager" is the old name of "split".',
        area=area.IR,
        status="beta",
    )
    compile_ahead: bool = option(
        True,
        "Have the engine of a device compile a graph while the next one is converted and while others run, and the "
        "backward of a training step beside its forward; without it each graph is compiled in its first call.",
        area=area.GE,
    )
    uncapturable: Literal["split", "error"] = option(
        "split",
        "What happens to operators that cannot be captured: they run eagerly between captured pieces, with one "
        "warning that names them, or the first is an error.",
    )
    host_constant_bytes: int = option(
        256 * 2**20,
        "Bytes of the device's memory that a graph may hold for what it computes on the host from literals and sizes "
        "alone; what does not fit is computed and copied in every call, and cuts the graph.",
        integer(0),
    )
    outputs: Literal["kept", "view", "clone", "guarded"] = option(
        "kept",
        "What a replay returns: values that stay valid as long as they are held, memory that the next replay writes "
        "again, a copy in every call, or that memory with a guard that raises when a stale value is read.",
    )
    kernels: Literal["aten", "inductor"] = option(
        "aten",
        "What computes inside a capture: the kernels of ATen, one for each operator, or those that Inductor generates "
        "for runs of operators, compiled at the first call of each shape.",
        inert="aten",
    )
    warmup: int = option(
        1,
        "Runs of a graph before it is captured, so that nothing is initialised inside the capture.",
        integer(0, 100),
    )
    adaptive_slots: int | None = option(
        None,
        "Calls after which an input whose address never changed is bound instead of copied; 0 never does so. None is "
        "3 where Inductor generates the kernels, whose own code copies nothing; elsewhere inputs of 256 KiB and more "
        "are bound when their copies have cost as much as a capture.",
        integer(0, 1_000_000),
    )
    adopt_inputs: bool = option(
        False,
        "A tensor in other memory than at the capture, such as the cache of a new request, takes over the memory of "
        "the capture where nobody else has it: its data_ptr() changes, and later calls copy nothing. Not for tensors "
        "whose address somebody keeps.",
    )
    sync: Literal["check", "error", "auto", "off"] = option(
        "check",
        "What happens when streams race in a graph: a warning, an error, the missing waits are inserted, or "
        "no check.",
        area=area.STREAMS,
        inert="off",
    )
    products_side_by_side: bool = option(
        False,
        "Products of few rows that read one matrix (query, key and value in a decode step) run at the same time, on "
        "streams of their own, in graphs without other streams.",
        inert=False,
    )
    stream_priority: Literal["if_possible", "error"] = option(
        "if_possible",
        "What happens to a stream priority that the device cannot give: the stream has the device's own, with a "
        "warning, or it is an error.",
        area=area.STREAMS,
    )
    read_repeats_once: bool = option(
        True,
        "A batched product reads the matrices that its batch repeats (grouped heads) where they are, once each.",
        area=area.PASSES,
        inert=False,
    )
    reuse_values: bool = option(
        True,
        "A value that the graph computes several times from the same arguments, as each layer does with a mask, is "
        "computed once.",
        area=area.PASSES,
        inert=False,
    )
    reinplace_with_streams: Literal["seed", "ordering"] = option(
        "seed",
        'In-place rewrites in a graph of several streams: "seed" is the documented rule, none of them; '
        '"ordering" allows those that the order of the streams proves safe.',
        area=area.ACL_PASSES,
    )
    verify: bool = option(
        False,
        "Prove each pass on the graph at hand, and take back one that changes a result.",
        area=area.PASSES,
    )
    view_inplace: bool = option(
        True, "Recover in-place scatters behind views of an input.", area=area.PASSES, inert=False
    )
    cache: AirCache = subgroup(AirCache)
    static_kernel: AirStaticKernel = subgroup(AirStaticKernel)
