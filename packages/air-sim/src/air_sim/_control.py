"""Changes switches and reads counters of the running process.

With these, tests inject a fault in the middle of a program; an environment variable would act from the start.
"""

from __future__ import annotations

import ctypes

from air_sim._activate import active
from air_sim._switches import Switches, variable
from air_sim.errors import DeviceLost, NotActive, UnknownSwitch

_CHANGEABLE = (
    "noop",
    "poison",
    "verbose",
    "sticky",
    "streams",
    "events",
    "delay_us",
    "launch_delay_us",
    "seed",
    "replay_threads",
    "slots",
    "kernel_timeout_ms",
    "fault",
)


def _library(name: str = "libascendcl.so") -> ctypes.CDLL:
    libraries = active()
    if libraries is None:
        raise NotActive
    return ctypes.CDLL(str(libraries.folder / name))


def change(**switches: object) -> None:
    """Changes switches while the program runs; `fault` counts occasions from this call on."""
    chosen = Switches.of(switches).environment()
    runtime = _library()
    for name in switches:
        if name not in _CHANGEABLE:
            raise UnknownSwitch(
                f"switch {name!r} is fixed when air-sim is activated (can change: {', '.join(_CHANGEABLE)})"
            )
        if runtime.air_sim_set(name.encode(), chosen[variable(name)].encode()) != 0:
            raise UnknownSwitch(f"the runtime does not know switch {name!r}")


def calls(function: str) -> int:
    """How often a function of the CANN ABI was called in this process."""
    runtime = _library()
    runtime.air_sim_calls.restype = ctypes.c_uint64
    return int(runtime.air_sim_calls(function.encode()))


def counters() -> dict[str, int]:
    """Calls per function of the CANN ABI so far, for the functions that were called."""
    runtime = _library()
    runtime.air_sim_counters.restype = ctypes.c_char_p
    totals: dict[str, int] = {}
    for line in runtime.air_sim_counters().decode().splitlines():
        count, _, name = line.partition(" ")
        totals[name] = totals.get(name, 0) + int(count)
    return totals


def static_kernels() -> int:
    """How many static kernels the last aclnnReselectStaticKernel found installed."""
    return int(_library("libopapi.so").air_sim_static_kernels())


def recover(device: int = 0) -> None:
    """Cancels the remaining work of a device and clears the errors of its streams, like a reset of the device.

    Raises DeviceLost when only a new process helps: after an error in torch_npu's launch thread.
    """
    runtime = _library()
    status = runtime.aclrtDeviceTaskAbort(ctypes.c_int32(device), ctypes.c_uint32(0))
    if status != 0:
        runtime.aclGetRecentErrMsg.restype = ctypes.c_char_p
        raise DeviceLost(device, status, (runtime.aclGetRecentErrMsg() or b"").decode())
