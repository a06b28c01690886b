"""What can go wrong before a program runs on air-sim, each with what to do about it."""

from __future__ import annotations


class AirSimError(RuntimeError):
    """Base of every error of this package.

    Catch it to handle every error of the package.
    """


class MissingPackage(AirSimError):
    """torch or torch_npu is not installed where air-sim runs.

    `pip install 'air-sim[npu]'` in the environment of the program.
    """

    def __init__(self, package: str) -> None:
        self.package = package
        super().__init__(
            f"{package} is not installed in this Python environment: air-sim runs the real {package} wheel. "
            "Install it with: pip install 'air-sim[npu]'"
        )


class MissingTool(AirSimError):
    """A program that the build needs is not on PATH.

    Install `g++` and binutils with the package manager of the system.
    """

    def __init__(self, tool: str) -> None:
        self.tool = tool
        super().__init__(
            f"{tool} is not on PATH: air-sim compiles its libraries with g++ and binutils; install them"
        )


class BuildFailed(AirSimError):
    """A compiler or linker command of the build failed.

    Read the compiler's message; after an update of torch or torch_npu compare the versions with `air-sim info`.
    """

    def __init__(self, command: str, output: str) -> None:
        self.command = command
        self.output = output
        super().__init__(
            f"the build of air-sim's libraries failed:\n{output.strip()}\ncommand: {command}\n"
            "If torch or torch_npu was updated, check that air-sim supports the versions ('air-sim info')."
        )


class UnusableCache(AirSimError):
    """The folder of compiled libraries cannot be written, or somebody else could have put there what is loaded.

    Name another folder with the variable `AIR_SIM_CACHE`, or do what the text says.
    """

    def __init__(self, folder: str, reason: str) -> None:
        self.folder = folder
        self.reason = reason
        super().__init__(
            f"{folder} cannot hold the libraries of air-sim: {reason}. "
            "Name another folder with the variable AIR_SIM_CACHE"
        )


class TooLate(AirSimError):
    """activate() was called after torch_npu had been imported over something else.

    Call `air_sim.activate()` before `import torch`, or start the program with `air-sim run`.
    """

    def __init__(self) -> None:
        super().__init__(
            "torch_npu is already imported without air-sim: call air_sim.activate() before 'import torch' "
            "(importing torch loads torch_npu), or start the program with: air-sim run python ..."
        )


class AlreadyActive(AirSimError):
    """activate() was given switches after the libraries had read theirs.

    Give the switches to the first `activate()`, or use `air_sim.change()` for those that can change.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        super().__init__(
            f"air-sim is active already, and {', '.join(names)} would not take effect: give switches to the first "
            "activate(), or change those that can change with air_sim.change()"
        )


class UnknownSwitch(AirSimError):
    """A switch that does not exist, or a value that it does not take.

    `air-sim run --help` lists the switches and what each takes.
    """


class DeviceLost(AirSimError):
    """A device cannot be put back into order inside this process.

    Start a new process; under `TASK_QUEUE_ENABLE=0` a failed launch leaves the process usable.
    """

    def __init__(self, device: int, status: int, reason: str) -> None:
        self.device = device
        self.status = status
        super().__init__(f"device {device} cannot be recovered (driver error {status}): {reason}")


class NotActive(AirSimError):
    """A running air-sim was asked for something before activate().

    Call `air_sim.activate()` before `import torch` first.
    """

    def __init__(self) -> None:
        super().__init__(
            "air-sim is not active in this process: call air_sim.activate() before 'import torch' first"
        )


class CompileError(AirSimError):
    """The stand-in for `op_compiler` cannot make a static kernel of a call, or was told to fail.

    Look at the file that the text names, or take back the switch `op_compiler_fail`.
    """
