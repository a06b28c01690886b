"""Blocks of a model: on which stream, with how many cores, and as which compiler options, the operators inside run.

    with npu_stream_switch("1"):
        y = torch.mm(a, b)

The same tag is the same stream everywhere in the process; blocks nest; tag `"default"` is the stream on which
the outermost block (or the compiled graph) was entered.
"""

from __future__ import annotations

import torch
from torch.fx.node import has_side_effect

from air_streams import _eager
from air_streams._tags import checked_cores, checked_priority, checked_tag, checked_tensor
from air_streams.errors import InvalidArgument, WrongArgumentType

__all__ = [
    "deterministic",
    "limit_core_num",
    "npu_stream_switch",
    "npu_wait_tensor",
    "op_never_timeout",
    "super_kernel",
]


@torch.compiler.allow_in_graph  # type: ignore[untyped-decorator]  # torch annotates it not
def core_limit_on_stream(stream: torch.Stream, aicore: int, vectorcore: int) -> None:
    """Opens a core limit on one stream; in a graph, `normalize` gives the stream its tag."""
    if not torch.compiler.is_compiling():
        _eager.limit_cores(stream, aicore, vectorcore)


has_side_effect(core_limit_on_stream)


class npu_stream_switch:  # noqa: N801 -- the name of the seed's API
    """Context manager: operators inside run on the stream behind `stream_tag`.

    `enable_inner_parallel=False` asks the graph engine not to run operators inside at the same time.
    """

    def __init__(self, stream_tag: str, stream_priority: int = 0, enable_inner_parallel: bool = True) -> None:
        self.stream_tag = checked_tag(stream_tag, "stream_tag")
        self.stream_priority = checked_priority(stream_priority, stream_tag)
        if not isinstance(enable_inner_parallel, bool):
            raise InvalidArgument(
                f"enable_inner_parallel takes True or False, got {enable_inner_parallel!r}",
                advice="leave the argument out for True",
            )
        self.enable_inner_parallel = enable_inner_parallel

    def __enter__(self) -> npu_stream_switch:
        torch.ops.air_streams.stream_enter(self.stream_tag, self.stream_priority)
        if not self.enable_inner_parallel:
            torch.ops.air_streams.attributes_enter(["_enable_inner_parallel"], ["False"])
        return self

    def __exit__(self, *raised: object) -> None:
        if not self.enable_inner_parallel:
            torch.ops.air_streams.attributes_exit()
        torch.ops.air_streams.stream_exit(self.stream_tag)


class limit_core_num:  # noqa: N801 -- the name of the seed's API
    """Context manager: operators inside use at most so many AI cores and vector cores.

    With `stream`, a stream of torch's, the limit holds for what runs on that stream inside, and for nothing else.
    """

    def __init__(
        self, op_aicore_num: int, op_vectorcore_num: int, stream: torch.Stream | None = None
    ) -> None:
        self.op_aicore_num = checked_cores(op_aicore_num, "op_aicore_num")
        self.op_vectorcore_num = checked_cores(op_vectorcore_num, "op_vectorcore_num")
        self.stream = stream
        if self.op_aicore_num < 1:
            raise InvalidArgument(
                f"op_aicore_num must be at least 1, got {op_aicore_num}",
                advice="every chip has an AI core; only op_vectorcore_num may be 0, on chips without vector cores",
            )

    def __enter__(self) -> limit_core_num:
        if self.stream is None:
            torch.ops.air_streams.core_limit_enter(self.op_aicore_num, self.op_vectorcore_num)
        else:
            core_limit_on_stream(self.stream, self.op_aicore_num, self.op_vectorcore_num)
        return self

    def __exit__(self, *raised: object) -> None:
        torch.ops.air_streams.core_limit_exit()


class _Attributes:
    """Context manager: the operators inside get attributes that the graph engine's compiler reads."""

    def __init__(self, **attributes: str) -> None:
        self.attributes = attributes

    def __enter__(self) -> _Attributes:
        torch.ops.air_streams.attributes_enter(list(self.attributes), list(self.attributes.values()))
        return self

    def __exit__(self, *raised: object) -> None:
        torch.ops.air_streams.attributes_exit()


class super_kernel(_Attributes):  # noqa: N801 -- TorchAir's name
    """Context manager: operators inside become one kernel of the name `scope`; None or "" takes the mark away."""

    def __init__(self, scope: str | None, options: str = "") -> None:
        texts: tuple[object, ...] = (options,) if scope is None else (scope, options)
        if not all(isinstance(text, str) for text in texts):
            raise InvalidArgument(
                f"super_kernel takes a name and options as text, got {scope!r} and {options!r}",
                advice="write options as 'name=value:name=value'",
            )
        super().__init__(_super_kernel_scope=scope or "", _super_kernel_options=options)


class op_never_timeout(_Attributes):  # noqa: N801 -- TorchAir's name
    """Context manager: operators inside may run without an end; for those that wait for another process."""

    def __init__(self, enable: bool = True) -> None:
        if not isinstance(enable, bool):
            raise WrongArgumentType(
                f"op_never_timeout takes True or False, got {enable!r}",
                advice="leave the argument out for True",
            )
        super().__init__(_op_exec_never_timeout=str(enable))


class deterministic(_Attributes):  # noqa: N801 -- TorchAir's name
    """Context manager: how far operators inside give the same bits in every run, from 0 (not at all) to 3."""

    def __init__(self, level: int) -> None:
        if isinstance(level, bool) or level not in (0, 1, 2, 3):
            raise InvalidArgument(
                f"deterministic takes a level from 0 to 3, got {level!r}",
                advice="0 is free order, 1 fixes the order of sums, 2 and 3 ask for more of the device",
            )
        super().__init__(_deterministic="1" if level else "0", _deterministic_level=str(level))


def npu_wait_tensor(self: torch.Tensor, dependency: torch.Tensor) -> torch.Tensor:
    """`self`, once `dependency` is computed: what follows on the current stream waits for `dependency`."""
    checked_tensor(self, "self of npu_wait_tensor")
    checked_tensor(dependency, "dependency of npu_wait_tensor")
    torch.ops.air_streams.wait([dependency])
    return self
