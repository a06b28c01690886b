"""Every switch of air-sim, in one place: field name, environment variable, meaning.

`activate()` takes them by field name, a shell by environment variable; the native libraries read the variables, so
a child process behaves like its parent.  `air-sim info` prints this table.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from air_sim.errors import UnknownSwitch

PREFIX = "AIR_SIM_"
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_FAULT = re.compile(
    r"(oom|kernel_error|hang|(acl|Hccl|ge::)[\w:]+)@[1-9]\d*|(stream_limit|event_limit)=\d+", re.ASCII
)


def parse_bytes(text: str) -> int:
    """`"64MiB"`, `"2g"` or a plain number of bytes, as a number."""
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)(i?b)?", text.strip().lower())
    if match is None:
        raise UnknownSwitch(f"{text!r} is not a size: write for example 64MiB, 2GiB or a number of bytes")
    return int(match[1]) * _UNITS[match[2]]


_MOST = 2**31 - 1
_A_DAY_S = 86_400


def _switch(default: object, meaning: str, low: float = 0, high: float = _MOST) -> Any:
    return field(default=default, metadata={"meaning": meaning, "span": (low, high)})


@dataclass(frozen=True)
class Switches:
    """What air-sim pretends to be, and which faults it injects."""

    soc: str = _switch("Ascend910B1", "SoC name that the driver reports")
    cann: str = _switch("8.5.0", "CANN version that the toolkit reports")
    devices: int = _switch(1, "number of devices, 1 to 64", 1, 64)
    memory: str = _switch("32GiB", "memory of one device; asking for more is driver error 207001")
    streams: int = _switch(1984, "streams of one device; asking for more is driver error 207008")
    events: int = _switch(65535, "events of one device; asking for more is driver error 207007")
    protect: bool = _switch(False, "device memory faults when anything but a kernel touches it")
    poison: bool = _switch(False, "freed device memory is filled with 0xDD before it can be used again")
    noop: bool = _switch(False, "kernels and asynchronous copies do nothing: only host time is left")
    delay_us: int = _switch(0, "every task first waits a random time up to this many microseconds")
    launch_delay_us: int = _switch(
        0, "torch_npu's task queue hands each launch over this many microseconds later", 0, 1_000_000
    )
    seed: int = _switch(
        0,
        "not 0: tasks and branches of a replay run in a random legal order of this seed",
        -(2**63),
        2**63 - 1,
    )
    replay_threads: int = _switch(2, "threads that run the independent branches of one replay", 1, 256)
    slots: int = _switch(
        0, "kernels that a device runs at a time, by priority of their streams (0: no limit)"
    )
    sticky: bool = _switch(
        True, "a stream whose kernel failed stays aborted, as the driver leaves it; False: reported once"
    )
    kernel_timeout_ms: int = _switch(
        0, "a kernel that hangs is given up after this time (0: what the program has set)"
    )
    fault: str = _switch(
        "",
        "oom@N, kernel_error@N, hang@N, FUNCTION@N (the Nth from now), stream_limit=K, event_limit=K; commas",
    )
    count_file: str = _switch("", "file that gets the number of calls of each function at exit")
    verbose: bool = _switch(False, "driver errors are also written to standard error")
    ge_record: str = _switch("", "file that gets the options of every Graph Engine session and graph")
    op_compiler_delay_s: float = _switch(
        0.0, "seconds that the op_compiler stand-in takes longer", 0, _A_DAY_S
    )
    op_compiler_log: str = _switch(
        "", "file that gets a JSON line for every call of the op_compiler stand-in"
    )
    op_compiler_fail: int = _switch(0, "the op_compiler stand-in fails after this many operators (0: never)")
    install_delay_s: float = _switch(
        0.0, "seconds that an installer of static kernels takes for each kernel", 0, _A_DAY_S
    )
    install_fail: int = _switch(0, "an installer of static kernels fails after this many (0: never)")

    def __post_init__(self) -> None:
        if not 0 < parse_bytes(self.memory) < 2**63:
            raise UnknownSwitch(
                f"switch memory ({variable('memory')}) is {self.memory!r}: write for example 32GiB"
            )
        if re.fullmatch(r"\d{1,4}(\.\w{1,20}){1,4}", self.cann) is None:
            raise UnknownSwitch(
                f"switch cann ({variable('cann')}) is {self.cann!r}: write a version such as 8.5.0"
            )
        for spec in dataclasses.fields(self):
            value, (low, high) = getattr(self, spec.name), spec.metadata["span"]
            if type(spec.default) in (int, float) and not low <= value <= high:  # NaN is in no span
                raise UnknownSwitch(
                    f"switch {spec.name} ({variable(spec.name)}) is {value!r}: it takes {low} to {high}"
                )
        for one in filter(None, (part.strip() for part in self.fault.split(","))):
            if _FAULT.fullmatch(one) is None:
                raise UnknownSwitch(
                    f"fault {one!r} is not known: use oom@N, kernel_error@N, hang@N, the name of a function as in "
                    "aclrtMemcpyAsync@2, stream_limit=K or event_limit=K"
                )

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Switches:
        """The switches of the environment, overridden by `values` (by field name)."""
        known = {f.name: f for f in dataclasses.fields(cls)}
        for name in values:
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise UnknownSwitch(f"air-sim has no switch {name!r}{hint} (one of: {', '.join(known)})")
        chosen: dict[str, Any] = {}
        for name, spec in known.items():
            if name in values:
                chosen[name] = _typed(name, values[name], spec.default)
            elif (text := os.environ.get(variable(name), "")) != "":
                chosen[name] = _typed(name, text, spec.default)
        return cls(**chosen)

    def environment(self) -> dict[str, str]:
        """The environment variables that give these switches to the native libraries and to child processes."""
        result = {}
        for spec in dataclasses.fields(self):
            value = getattr(self, spec.name)
            if spec.name == "memory":
                value = parse_bytes(value)
            result[variable(spec.name)] = str(int(value)) if isinstance(value, bool) else str(value)
        return result


def variable(name: str) -> str:
    """Environment variable of a switch."""
    return PREFIX + name.upper()


def _typed(name: str, value: object, default: object) -> object:
    try:
        if isinstance(default, bool):
            return value if isinstance(value, bool) else {"0": False, "1": True}[str(value)]
        if isinstance(value, bool) or (isinstance(value, float) and isinstance(default, int)):
            raise ValueError(value)  # 1.5 devices, or True of them
        return type(default)(value)  # type: ignore[call-arg]  # str, int and float take one value
    except (KeyError, ValueError):
        raise UnknownSwitch(
            f"switch {name} ({variable(name)}) is {value!r}: it takes a {type(default).__name__}"
            + (" (0 or 1)" if isinstance(default, bool) else "")
        ) from None


def table() -> list[tuple[str, str, str, str]]:
    """(field, environment variable, default, meaning) of every switch, for documentation."""
    return [
        (spec.name, variable(spec.name), str(spec.default), spec.metadata["meaning"])
        for spec in dataclasses.fields(Switches)
    ]
