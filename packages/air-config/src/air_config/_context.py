"""What is known about the place a configuration is resolved for: device, chip, software, processes, graph."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final, Literal

import attrs

from air_config import errors

__all__ = [
    "Context",
    "Product",
    "ProfilerState",
    "cann_version",
    "of_options",
    "product_of",
    "variables_held",
]

Product = Literal["A2", "A3", "other"]

_PRODUCTS: Final[tuple[tuple[str, Product], ...]] = (
    (r"Ascend910B\d.*", "A2"),
    (r"Ascend910_93\d*.*", "A3"),
)


def product_of(soc: str) -> Product:
    """The product series of a chip by the name its driver reports, such as "Ascend910B3"."""
    for pattern, product in _PRODUCTS:
        if re.fullmatch(pattern, soc, re.IGNORECASE):
            return product
    return "other"


def cann_version(text: str) -> tuple[int, int, int]:
    """A version of CANN to compare: "8.3.RC1" is below "8.3.0", which is below "8.5.0"."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(?:(\d+)|(?:RC)(\d+)))?", text, re.IGNORECASE)
    if match is None:
        raise errors.WrongValue(
            "cann", text, 'a version of CANN such as "8.5.0" or "8.3.RC1"', where="Context"
        )
    major, minor, patch, candidate = match.groups()
    return int(major), int(minor), -1 if candidate is not None else int(patch or 0)


@attrs.frozen
class ProfilerState:
    """The two facts about an Ascend PyTorch Profiler that static kernels care about."""

    record_op_args: bool = False
    skip_first: int = 0


_HELD: Final[ContextVar[Mapping[str, str] | None]] = ContextVar("air_config_variables", default=None)


def of_options(env: Mapping[str, str]) -> dict[str, str]:
    """The variables of an environment that may be options."""
    return {name: value for name, value in env.items() if name.startswith("AIR_")}


@contextlib.contextmanager
def variables_held(variables: Mapping[str, str]) -> Iterator[None]:
    """A block in which the environment of a context has these variables of options, and no others."""
    token = _HELD.set(variables)
    try:
        yield
    finally:
        _HELD.reset(token)


def _environment(given: Mapping[str, str] | None) -> Mapping[str, str]:
    if given is not None:
        return dict(given)
    held, now = _HELD.get(), dict(os.environ)
    return now if held is None else {**{name: now[name] for name in now.keys() - of_options(now)}, **held}


def _known_device(context: object, attribute: object, value: str) -> None:
    if value not in ("npu", "cuda", "cpu"):
        raise errors.WrongValue("device", value, '"npu", "cuda" or "cpu"', where="Context")


def _readable_version(context: object, attribute: attrs.Attribute[Any], value: str | None) -> None:
    _text_or_none(context, attribute, value)
    if value is not None:
        cann_version(value)


def _text_or_none(context: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, (str, type(None))):
        raise errors.WrongType(attribute.name, value, "a string, or None", where="Context")


@attrs.frozen(kw_only=True, eq=False)
class Context:
    """Where and for what a configuration is resolved. What is left out is unknown, and no rule acts on it."""

    device: str = attrs.field(default="npu", validator=_known_device)
    """Type of the device the graph runs on: npu, cuda or cpu."""
    npu_elsewhere: bool = False
    """Whether the process has an NPU, and this graph runs on its host."""
    soc: str | None = attrs.field(default=None, validator=_text_or_none)
    """Name of the chip, as `torch.npu.get_device_name()` gives it."""
    cann: str | None = attrs.field(default=None, validator=_readable_version)
    """Version of CANN."""
    env: Mapping[str, str] = attrs.field(default=None, converter=_environment)
    """The environment; by default that of the process, as it is when the context is made."""
    multi_stream: bool = False
    """Whether the graph runs on several streams."""
    core_limits: bool = False
    """Whether the graph limits cores."""
    dynamic: bool | None = None
    """Whether the graph has symbolic sizes."""
    gears: bool = False
    """Whether sizes are given by `set_dim_gears`."""
    buckets: bool = False
    """Whether sizes are padded to those of `set_dim_buckets`."""
    point_to_point: bool = False
    """Whether the graph sends to or receives from single ranks."""
    training: bool = False
    """Whether the graph is half of a training step: autograd keeps what it gives, and accumulates gradients in it."""
    export: bool = False
    """Whether the graph is exported instead of run."""
    compile_cache: bool = False
    """Whether the compiled function is stored by `cache_compile`."""
    profiler: ProfilerState | None = None
    """The profiler that is active, if any."""
    world_size: int = 1
    """Processes of the job."""
    local_world_sizes: tuple[int, ...] = ()
    """LOCAL_WORLD_SIZE of every node, where the job has gathered them."""
    cards: int = 1
    """Accelerators on which this process holds tensors."""

    @property
    def product(self) -> Product | None:
        """The product series, where the chip is known."""
        return None if self.soc is None else product_of(self.soc)

    def cann_below(self, version: str) -> bool:
        """Whether CANN is known and older than `version`."""
        return self.cann is not None and cann_version(self.cann) < cann_version(version)
