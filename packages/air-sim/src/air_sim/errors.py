"""What can go wrong before a program runs on air-sim, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from air_config.errors import AirError


class AirSimError(AirError, RuntimeError):
    """Base of every error of this package.

    Catch it to handle every error of the package.
    """


@dataclass(eq=False)
class MissingPackage(AirSimError):
    """torch or torch_npu is not installed where air-sim runs.

    `pip install 'air-sim[npu]'` in the environment of the program.
    """

    package: str
    what = "{package} is not installed in this Python environment: air-sim runs the real {package} wheel"
    advice = "install it with: pip install 'air-sim[npu]'"


@dataclass(eq=False)
class MissingTool(AirSimError):
    """A program that the build needs is not on PATH.

    Install `g++` and binutils with the package manager of the system.
    """

    tool: str
    what = "{tool} is not on PATH: air-sim compiles its libraries with g++ and binutils"
    advice = "install them with the package manager of the system"


@dataclass(eq=False)
class MissingCommand(AirSimError):
    """The command that `air-sim run` was given is not on PATH, or cannot be executed.

    Name a program, such as `python script.py`.
    """

    command: str
    what = "{command} is no program that can be run here"
    advice = "name one that is on PATH, for example: air-sim run python script.py"


@dataclass(eq=False)
class BuildFailed(AirSimError):
    """A compiler or linker command of the build failed.

    Read the compiler's message; after an update of torch or torch_npu compare the versions with `air-sim info`.
    """

    command: str
    output: str
    what = "the build of air-sim's libraries failed:\n{output}"
    advice = "if torch or torch_npu was updated, check that air-sim supports the versions ('air-sim info')"

    def details(self) -> Iterable[tuple[str, object]]:
        yield "command", self.command


@dataclass(eq=False)
class UnusableCache(AirSimError):
    """The folder of compiled libraries cannot be written, or another user can change the libraries in it.

    Name another folder with the variable `AIR_SIM_CACHE`, or do what the message says.
    """

    folder: str
    reason: str
    what = "{folder} cannot hold the libraries of air-sim: {reason}"
    advice = "name another folder with the variable AIR_SIM_CACHE"


class TooLate(AirSimError):
    """activate() was called after torch_npu had been imported without air-sim.

    Call `air_sim.activate()` before `import torch`, or start the program with `air-sim run`.
    """

    what = "torch_npu is already imported without air-sim"
    advice = (
        "call air_sim.activate() before 'import torch' (importing torch loads torch_npu), "
        "or start the program with: air-sim run python ..."
    )


@dataclass(eq=False)
class AlreadyActive(AirSimError):
    """activate() was given switches after the libraries had read theirs.

    Give the switches to the first `activate()`, or use `air_sim.change()` for those that can change.
    """

    names: tuple[str, ...]
    what = "air-sim is active already, and {names} would not take effect"
    advice = "give switches to the first activate(), or change those that can change with air_sim.change()"


class UnknownSwitch(AirSimError):
    """A switch does not exist, or does not accept its value.

    `air-sim run --help` lists the switches and the values of each.
    """


@dataclass(eq=False)
class DeviceLost(AirSimError):
    """A device cannot be recovered inside this process.

    Start a new process; under `TASK_QUEUE_ENABLE=0` a failed launch leaves the process usable.
    """

    device: int
    status: int
    reason: str
    what = "device {device} cannot be recovered (driver error {status}): {reason}"
    advice = "start a new process; under TASK_QUEUE_ENABLE=0 a failed launch leaves the process usable"


class NotActive(AirSimError):
    """A function that needs a running air-sim was called before activate().

    Call `air_sim.activate()` before `import torch` first.
    """

    what = "air-sim is not active in this process"
    advice = "call air_sim.activate() before 'import torch' first"


class CompileError(AirSimError):
    """The stand-in for `op_compiler` cannot make a static kernel for a call, or was told to fail.

    Look at the file that the message names, or turn off the switch `op_compiler_fail`.
    """
