"""Every error the backend itself raises: what happened, where, what to do.

Errors of a layer below keep their own class; Dynamo wraps whatever is raised during a compilation in
`BackendCompilerFailed` and keeps the text, so each message stands alone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class AirError(Exception):
    """Base of the backend's errors; a subclass fills the three parts of the message.

    Catch it to handle every error that the backend itself raises.
    """

    def what(self) -> str:
        raise NotImplementedError

    def where(self) -> str | None:
        return None

    def advice(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        place = self.where()
        lines = [self.what(), *([f"  at      {place}"] if place else []), f"  advice  {self.advice()}"]
        return "\n".join(lines)

    def __post_init__(self) -> None:
        super().__init__(str(self))


@dataclass
class UnsupportedDevice(AirError):
    """A graph computes on a kind of device that no executor serves.

    Move the model and its inputs to a device that the text lists, or choose the mode that serves yours.
    """

    device: str
    mode: str
    served: tuple[str, ...]
    source: str | None = None

    def what(self) -> str:
        mode = "no mode runs" if self.mode == "any" else f"mode {self.mode!r} does not run"
        return f"{mode} on {self.device!r} tensors; served are {', '.join(self.served)}"

    def where(self) -> str | None:
        return self.source

    def advice(self) -> str:
        if self.device == "cuda":
            return "use config.mode = 'reduce-overhead', which serves cuda tensors"
        return f"move the model and its inputs to one of: {', '.join(self.served)}"


@dataclass
class MixedDevices(AirError):
    """One graph computes on two accelerators.

    Keep all tensors of a compiled function on one device; run one process per device.
    """

    devices: tuple[str, ...]
    source: str | None = None

    def what(self) -> str:
        return f"one graph uses several devices: {', '.join(self.devices)}"

    def where(self) -> str | None:
        return self.source

    def advice(self) -> str:
        return "keep all tensors of a compiled function on one device; run one process per device (torchrun)"


@dataclass
class SecondDevice(AirError):
    """A process that compiled for one NPU compiles for another one.

    Start one process per card, for example with `torchrun`, and set the device before the first compilation.
    """

    first: str
    second: str

    def what(self) -> str:
        return f"this process compiled for {self.first}; a graph for {self.second} is refused: one NPU per process"

    def advice(self) -> str:
        return "start one process per device, for example with torchrun, and call torch.npu.set_device(local_rank)"


@dataclass
class UnknownMode(AirError):
    """`torch.compile(mode=...)` names no mode of this backend.

    Use one of the modes that the text lists.
    """

    mode: str
    known: tuple[str, ...]

    def what(self) -> str:
        return f"torch.compile(backend='air', mode={self.mode!r}): no such mode"

    def advice(self) -> str:
        return f"use one of: {', '.join(map(repr, self.known))}"


@dataclass
class OptionsOfWrongType(AirError):
    """Options came as something else than `torch.compile(options=...)` or `compiler_config=` take.

    Give a dict of option names to values to `torch.compile`, or a `CompilerConfig` to either of them.
    """

    given: str
    call: str = "torch.compile(backend='air', options=...)"

    def what(self) -> str:
        return f"{self.call} got a {self.given}"

    def advice(self) -> str:
        if self.call.startswith("torch.compile"):
            return "give a dict of option names to values, or an air_backend.CompilerConfig"
        if self.call == "cache_compile(func)":
            return "give a function or a method, such as model.forward"
        return "give an air_backend.CompilerConfig; CompilerConfig.from_options({...}) makes one of a dict"


@dataclass
class NotAGraphModule(AirError):
    """`compile_fx` got something that is not an FX GraphModule.

    Pass what AOTAutograd or `torch.export` gives, or use `torch.compile(model, backend="air")`.
    """

    given: str

    def what(self) -> str:
        return f"compile_fx needs a torch.fx.GraphModule of ATen operators and got a {self.given}"

    def advice(self) -> str:
        return "pass what AOTAutograd or torch.export gives, or use torch.compile(model, backend='air')"


@dataclass
class DemoMismatch(AirError):
    """A mode of the demo computed something else than eager.

    Something is wrong here: run `air doctor`, then isolate the step as the accuracy guide says, and report it.
    """

    mode: str
    difference: float
    allowed: float

    def what(self) -> str:
        return f"mode {self.mode} differs from eager by {self.difference:.3g}; {self.allowed:.3g} is allowed"

    def advice(self) -> str:
        return "run `air explain` on the model and switch passes off one by one (docs/accuracy.md)"


@dataclass
class ResultChanges(AirError):
    """A bisection met a result that is wrong only sometimes.

    Raise `--calls`, so that every trial shows the fault; `explain()` lists the races that streams may have.
    """

    difference: str

    def what(self) -> str:
        return f"the same program gave a right and a wrong result: {self.difference}"

    def advice(self) -> str:
        return "raise --calls, so that every trial shows the fault; explain() lists the races that streams may have"


@dataclass
class CannotSplit(AirError):
    """The demo's model does not divide by the number of ranks.

    Start as many processes as divide the part that the text names.
    """

    part: str
    count: int
    ranks: int

    def what(self) -> str:
        return f"{self.count} {self.part} cannot be split over {self.ranks} ranks"

    def advice(self) -> str:
        return f"start as many processes as divide {self.count}"


@dataclass
class DumpUnsupported(AirError):
    """Tensors of a replay cannot be written on this kind of device.

    Set `config.debug.data_dump.type = "npy"`, which runs the graph eagerly, or run on a device that the text lists.
    """

    device: str
    served: tuple[str, ...]

    def what(self) -> str:
        return f"dump_config.enable_dump: a replay on {self.device!r} cannot call the host to write a tensor"

    def advice(self) -> str:
        return (
            "use config.debug.data_dump.type = 'npy', which runs the graph eagerly, "
            f"or run on one of: {', '.join(self.served)}"
        )


@dataclass
class NumpyMissing(AirError):
    """An option writes files that numpy makes, and numpy is not installed.

    Install numpy in the environment of the program: `pip install numpy`.
    """

    option: str

    def what(self) -> str:
        return f"{self.option} needs numpy, which is not installed"

    def advice(self) -> str:
        return "pip install numpy"


@dataclass
class NotServed(AirError):
    """Something that TorchAir does and AIR does not.

    The advice names what does the same job.
    """

    name: str
    reason: str
    instead: str

    def what(self) -> str:
        return f"torchair.{self.name} is not served by AIR: {self.reason}"

    def advice(self) -> str:
        return self.instead


@dataclass
class CannotSave(AirError):
    """A compiled function is to be written to disk, and another process could not use what would be written.

    The text says what stands in the way.
    """

    reason: str

    def what(self) -> str:
        return f"this function cannot be kept for other processes: {self.reason}"

    def advice(self) -> str:
        return (
            "take that out of the function, or call it through torch.compile, which compiles in each process"
        )


@dataclass
class TwoConfigurations(AirError):
    """A call got a configuration and a backend that has another one.

    Give one of the two.
    """

    call: str

    def what(self) -> str:
        return f"{self.call}(config=..., backend=...) got two different configurations"

    def advice(self) -> str:
        return "give one of them, or make the backend with the same configuration"


@dataclass
class NotACache(AirError):
    """A file is not one that `cache_compile` wrote, or not for this function.

    `cache_compile` itself leaves such a file alone and traces the function anew.
    """

    path: str
    reason: str

    def what(self) -> str:
        return f"{self.path} cannot be read as a file of cache_compile: {self.reason}"

    def advice(self) -> str:
        return "name a file compiled_module* below the cache_dir of cache_compile"


@dataclass
class UnsafeCache(AirError):
    """A file or folder of compiled functions could have been written by somebody else; reading it runs code.

    Take it over (`chown`, `chmod go-w`) if you trust it, or choose another `cache_dir`.
    """

    path: str
    reason: str

    def what(self) -> str:
        return f"{self.path} is not read, because reading it runs the code in it: {self.reason}"

    def advice(self) -> str:
        return "make it yours alone (chown, chmod go-w) if you trust what is in it, or give another cache_dir"


@dataclass
class WeightsOnHost(AirError):
    """An internal format is asked for weights that do not lie on an NPU.

    Move the model to the NPU first.
    """

    call: str
    found: str

    def what(self) -> str:
        return f"{self.call}: internal formats exist on an NPU only, and {self.found}"

    def advice(self) -> str:
        return "call it after model.npu(); on other devices leave it out, results are the same without"


@dataclass
class BadPrint(AirError):
    """`npu_print` got arguments it cannot print, or is called where nothing can be printed.

    Give at least one tensor beside texts and numbers; for a captured graph of a device use run_eagerly.
    """

    reason: str
    remedy: str

    def what(self) -> str:
        return f"npu_print: {self.reason}"

    def advice(self) -> str:
        return self.remedy


@dataclass
class BadAddresses(AirError):
    """`create_npu_tensors` got something that is no list of device addresses, or found no device.

    Pass sizes and addresses as lists of int, in a process with an NPU.
    """

    reason: str

    def what(self) -> str:
        return f"create_npu_tensors: {self.reason}"

    def advice(self) -> str:
        return "pass a shape, a torch.dtype and a list of addresses of NPU memory, in a process that has torch_npu"


@dataclass
class CannotPin(AirError):
    """A compiled function cannot be called without Dynamo.

    Pin a function that is one captured graph: mode reduce-overhead, `fullgraph=True`, under `torch.no_grad()`.
    """

    reason: str

    def what(self) -> str:
        return f"the compiled function cannot be pinned: {self.reason}"

    def advice(self) -> str:
        return "compile with mode='reduce-overhead' and fullgraph=True, and pin under torch.no_grad()"


@dataclass
class PinnedArgument(AirError):
    """A pinned function was called with what its capture was not made for.

    Call it as in the example, with tensors of the same shapes, or pin it again.
    """

    reason: str

    def what(self) -> str:
        return f"a pinned call does not fit its example: {self.reason}"

    def advice(self) -> str:
        return "pass what the example had, with new values only in the inputs that are copied, or call pin() again"


@dataclass
class CannotSimulate(AirError):
    """`air COMMAND --sim` needs a package that is not installed.

    Install what the text says in the environment of the `air` command, or leave `--sim` out.
    """

    package: str
    install: str

    def what(self) -> str:
        return f"--sim needs {self.package}: not installed"

    def advice(self) -> str:
        return f"install it: {self.install}"


class GraphSplit(UserWarning):
    """Some operators of a graph run eagerly, between compiled pieces; the text names each with its line.

    Take them out of the compiled function, or register a converter; `config.air.uncapturable = "error"` (in
    max-autotune `config.air.unsupported = "error"`) makes it an error.
    """

    def __init__(
        self, mode: str, graph: str, pieces: int, left: tuple[tuple[str, str, str | None], ...]
    ) -> None:
        self.mode = mode
        self.graph = graph
        self.pieces = pieces
        self.left = left
        super().__init__(str(self))

    def __str__(self) -> str:
        lines = [
            f"{self.graph} runs in {self.pieces} compiled pieces ({self.mode}); these operators run eagerly between "
            "them, and each costs a launch by the host and a copy of what crosses the cut:"
        ]
        lines.extend(f"  {operator}: {why}\n    {place or ''}".rstrip() for operator, why, place in self.left)
        return "\n".join(lines)


class DebugFolderWarning(UserWarning):
    """The folder of `TORCH_COMPILE_DEBUG=1` cannot be written; the program goes on without it.

    Do what the text says, or move the folder with `torch._dynamo.config.debug_dir_root`.
    """


class CacheWarning(UserWarning):
    """A graph of `cache_compile` cannot be kept on disk; this process runs what it has traced.

    Do what the text says (free space, take the rights), or give another `cache_dir`.
    """
