"""What can go wrong before a program runs on air-sim, each with what to do about it."""

from __future__ import annotations


class AirSimError(RuntimeError):
    """Base of every error of this package."""


class MissingPackage(AirSimError):
    """torch or torch_npu is not installed where air-sim runs."""

    def __init__(self, package: str) -> None:
        self.package = package
        super().__init__(
            f"{package} is not installed in this Python environment: air-sim runs the real {package} wheel. "
            "Install it with: pip install 'air-sim[npu]'"
        )


class MissingTool(AirSimError):
    """A program that the build needs is not on PATH."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        super().__init__(
            f"{tool} is not on PATH: air-sim compiles its libraries with g++ and binutils; install them"
        )


class BuildFailed(AirSimError):
    """A compiler or linker command of the build failed."""

    def __init__(self, command: str, output: str) -> None:
        self.command = command
        self.output = output
        super().__init__(
            f"the build of air-sim's libraries failed:\n{output.strip()}\ncommand: {command}\n"
            "If torch or torch_npu was updated, check that air-sim supports the versions ('air-sim info')."
        )


class TooLate(AirSimError):
    """activate() was called after torch_npu had been imported over something else."""

    def __init__(self) -> None:
        super().__init__(
            "torch_npu is already imported without air-sim: call air_sim.activate() before 'import torch' "
            "(importing torch loads torch_npu), or start the program with: air-sim run python ..."
        )


class AlreadyActive(AirSimError):
    """activate() was given switches after the libraries had read theirs."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        super().__init__(
            f"air-sim is active already, and {', '.join(names)} would not take effect: give switches to the first "
            "activate(), or change those that can change with air_sim.change()"
        )


class UnknownSwitch(AirSimError):
    """A switch that does not exist, or a value that it does not take."""


class NotActive(AirSimError):
    """A running air-sim was asked for something before activate()."""

    def __init__(self) -> None:
        super().__init__(
            "air-sim is not active in this process: call air_sim.activate() before 'import torch' first"
        )
