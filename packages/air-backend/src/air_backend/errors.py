"""Every error the backend itself raises.

Errors of a layer below keep their own class; Dynamo wraps whatever is raised during a compilation in
`BackendCompilerFailed` and keeps the message, so each message stands alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from air_config.errors import AirError

if TYPE_CHECKING:
    from air_graph import SourceLine  # with torch, which `air --help` does without


@dataclass(eq=False)
class UnsupportedDevice(AirError):
    """A graph computes on a kind of device that no executor supports.

    Move the model and its inputs to a device that the message lists, or choose the mode that supports yours.
    """

    device: str
    mode: str
    served: tuple[str, ...]
    where: str | None = None
    what = "{refusing} on {device!r} tensors; served are {served}"
    advice = "move the model and its inputs to one of: {served}"

    def __post_init__(self) -> None:
        self.refusing = "no mode runs" if self.mode == "any" else f"mode {self.mode!r} does not run"
        if self.device == "cuda":
            self.advice = "use config.mode = 'reduce-overhead', which serves cuda tensors"
        super().__post_init__()


@dataclass(eq=False)
class MixedDevices(AirError):
    """One graph computes on two accelerators.

    Keep all tensors of a compiled function on one device; run one process per device.
    """

    devices: tuple[str, ...]
    where: str | None = None
    what = "one graph uses several devices: {devices}"
    advice = "keep all tensors of a compiled function on one device; run one process per device (torchrun)"


@dataclass(eq=False)
class SecondDevice(AirError):
    """A process compiles for a second NPU.

    Start one process per card, for example with `torchrun`, and set the device before the first compilation.
    """

    first: str
    second: str
    what = "this process compiled for {first}; a graph for {second} is refused: one NPU per process"
    advice = (
        "start one process per device, for example with torchrun, and call torch.npu.set_device(local_rank)"
    )


@dataclass(eq=False)
class UnknownMode(AirError):
    """`torch.compile(mode=...)` names a mode that this backend does not have.

    Use one of the modes that the message lists.
    """

    mode: str
    known: tuple[str, ...]
    what = "there is no mode {mode!r} (torch.compile(backend='air', mode=...), air explain --mode)"
    advice = "use one of: {known}"


@dataclass(eq=False)
class OptionsOfWrongType(AirError):
    """Options have a type that `torch.compile(options=...)` or `compiler_config=` does not take.

    Give `torch.compile` a dict from option names to values, or give either of them a `CompilerConfig`.
    """

    given: str
    call: str = "torch.compile(backend='air', options=...)"
    what = "{call} got a {given}"

    def __post_init__(self) -> None:
        self.advice = (
            "give an air_backend.CompilerConfig; CompilerConfig.from_options({...}) makes one of a dict"
        )
        if self.call.startswith("torch.compile"):
            self.advice = "give a dict of option names to values, or an air_backend.CompilerConfig"
        elif self.call == "cache_compile(func)":
            self.advice = "give a function or a method, such as model.forward"
        super().__post_init__()


@dataclass(eq=False)
class NoDecomposition(AirError):
    """`custom_decompositions` is no dict from operators to functions.

    Give operators of `torch.ops` as keys (`torch.ops.aten.relu.default`, or `torch.ops.aten.relu` for all of its
    overloads), and functions that take what the operator takes as values.
    """

    given: str
    what = "custom_decompositions {given}"
    advice = "give a dict from operators to functions: {{torch.ops.aten.relu.default: function}}"


@dataclass(eq=False)
class NotAGraphModule(AirError):
    """The argument of `compile_fx` is neither an FX GraphModule nor a program of `torch.export`.

    Pass what AOTAutograd or `torch.export` returns, or use `torch.compile(model, backend="air")`.
    """

    given: str
    what = "compile_fx needs a torch.fx.GraphModule of ATen operators and got a {given}"
    advice = "pass what AOTAutograd or torch.export gives, or use torch.compile(model, backend='air')"


@dataclass(eq=False)
class NotAParameter(AirError, TypeError):
    """A word of torch.compile (`mode`, `options`) was given to a call that hands its arguments to the function.

    Give `compiler_config=CompilerConfig.preset("reduce-overhead")` or `CompilerConfig.from_options({...})`.
    """

    call: str
    word: str
    what = "{call}({word}=...): neither {call} nor the function has a parameter {word!r}"
    advice = "give compiler_config=CompilerConfig.preset('reduce-overhead'), or .from_options({{...}})"


@dataclass(eq=False)
class UnknownEnding(AirError, ValueError):
    """The ending of a file name is not a format in which a report can be saved.

    Use one of the endings that the message lists.
    """

    name: str
    known: tuple[str, ...]
    what = "{name!r} does not end with a format in which a report can be saved"
    advice = "use one of: {known}"


@dataclass(eq=False)
class ResultChanges(AirError):
    """A bisection found a result that is wrong only sometimes.

    Raise `--calls`, so that every trial shows the fault; `explain()` lists the races that streams may have.
    """

    difference: str
    what = "the same program gave a right and a wrong result: {difference}"
    advice = (
        "raise --calls, so that every trial shows the fault; explain() lists the races that streams may have"
    )


@dataclass(eq=False)
class CannotCompare(AirError, TypeError):
    """A function gives or changes an object of which nothing says whether it is the one that eager gives.

    Return tensors, numbers and words, or give the class of the object an `__eq__`.
    """

    kind: str
    reason: str
    what = "a {kind} of eager cannot be compared with that of the compiled function: {reason}"
    advice = "return tensors, numbers and words, or give its class an __eq__"


@dataclass(eq=False)
class CannotSplit(AirError):
    """The demo's model does not divide by the number of ranks.

    Start a number of processes that divides the part that the message names.
    """

    part: str
    count: int
    ranks: int
    what = "{count} {part} cannot be split over {ranks} ranks"
    advice = "start a number of processes that divides {count}"


@dataclass(eq=False)
class DumpUnsupported(AirError):
    """A replay on this kind of device cannot write its tensors to files.

    Set `config.debug.data_dump.type = "npy"`, which runs the graph eagerly, or run on a device that the message lists.
    """

    device: str
    served: tuple[str, ...]
    what = "dump_config.enable_dump: a replay on {device!r} cannot call the host to write a tensor"
    advice = (
        "use config.debug.data_dump.type = 'npy', which runs the graph eagerly, or run on one of: {served}"
    )


@dataclass(eq=False)
class CannotSave(AirError):
    """A compiled function cannot be saved for other processes.

    The message gives the reason.
    """

    reason: str
    what = "this function cannot be saved for other processes: {reason}"
    advice = "remove that from the function, or call it through torch.compile, which compiles in each process"


@dataclass(eq=False)
class NotACache(AirError):
    """A file is not one that `cache_compile` wrote, or not for this function.

    `cache_compile` itself leaves such a file alone and traces the function again.
    """

    path: str
    reason: str
    what = "{path} cannot be read as a file of cache_compile: {reason}"
    advice = "name a file compiled_module* below the cache_dir of cache_compile"


@dataclass(eq=False)
class WeightsOnHost(AirError):
    """An internal format is requested for weights that are not on an NPU.

    Move the model to the NPU first.
    """

    call: str
    found: str
    what = "{call}: internal formats exist on an NPU only, and {found}"
    advice = "call it after model.npu(); on other devices remove the call: the results are the same"


@dataclass(eq=False)
class BadPrint(AirError, ValueError):
    """`npu_print` got arguments it cannot print, or is called where nothing can be printed.

    Give at least one tensor beside strings and numbers; for a captured graph of a device use run_eagerly.
    """

    reason: str
    remedy: str
    what = "npu_print: {reason}"
    advice = "{remedy}"


@dataclass(eq=False)
class BadPrintType(BadPrint, TypeError):
    """An argument of `npu_print` has the wrong type.

    Give tensors, strings, numbers and booleans; `summarize_size` is an int, `tensor_detail` a boolean.
    """


@dataclass(eq=False)
class BadAddresses(AirError, TypeError):
    """`create_npu_tensors` did not get a list of device addresses, or found no device.

    Pass sizes and addresses as lists of int, in a process with an NPU.
    """

    reason: str
    what = "create_npu_tensors: {reason}"
    advice = (
        "pass a shape, a torch.dtype and a list of addresses of NPU memory, in a process that has torch_npu"
    )


@dataclass(eq=False)
class OtherInput(AirError, ValueError):
    """A compiled graph was called with arguments of other types or sizes than it was compiled for.

    Pass what the example had, trace the graph with open sizes, or call `torch.compile`, which compiles for each kind.
    """

    reason: str
    what = "the call is not one that the graph was compiled for: {reason}"
    advice = (
        "pass what the example had, trace with open sizes (tracing_mode='symbolic'), or use torch.compile"
    )


@dataclass(eq=False)
class SharingRefused(AirError, ValueError):
    """Arguments of a call share memory otherwise than in the call that was compiled, and the function writes to them.

    Pass a copy of what is read (`.clone()`), or do without `config.air.uncapturable = "error"` (in max-autotune
    `config.air.unsupported`): then such a call runs eagerly.
    """

    arguments: tuple[str, ...]
    reason: str
    where: SourceLine | None = None
    what = "the function writes to one of {arguments}: {reason}"
    advice = "pass a copy of what is only read: .clone()"


@dataclass(eq=False)
class BackwardRefused(AirError, RuntimeError):
    """The backward of a `torch.autograd.Function` would be lost when the graph is compiled.

    Let the function give a tensor of its own (`.clone()`), or do without `config.air.uncapturable = "error"` (in
    max-autotune `config.air.unsupported`): then such a graph runs eagerly.
    """

    reason: str
    where: SourceLine | None = None
    what = "a torch.autograd.Function {reason}: its backward would be lost"
    advice = "let the function give a tensor of its own: .clone()"


@dataclass(eq=False)
class SeedsLost(BackwardRefused):
    """The gradient of an attention with dropout would drop other values than the forward did.

    Call `npu_fusion_attention_v3`, which hands its random state on as tensors, or leave dropout out. Without
    `config.air.uncapturable = "error"` (in max-autotune `config.air.unsupported`) such a graph runs eagerly.
    """

    what = "{reason} gives its random state as numbers, of which a trace has none: its gradient would drop others"
    advice = "call npu_fusion_attention_v3, or leave dropout out"


@dataclass(eq=False)
class CannotPin(AirError):
    """A compiled function cannot be called without Dynamo.

    Pin a function that is one captured graph: mode reduce-overhead, `fullgraph=True`, under `torch.no_grad()`.
    """

    reason: str
    what = "the compiled function cannot be pinned: {reason}"
    advice = "compile with mode='reduce-overhead' and fullgraph=True, and pin under torch.no_grad()"


@dataclass(eq=False)
class PinnedArgument(AirError):
    """A pinned function was called with arguments that its capture was not made for.

    Call it as in the example, with tensors of the same shapes, or pin it again.
    """

    reason: str
    what = "a pinned call does not fit its example: {reason}"
    advice = (
        "pass what the example had, with new values only in the inputs that are copied, or call pin() again"
    )


@dataclass(eq=False)
class PinnedGradient(AirError):
    """A pinned function was called with a tensor that requires gradients while gradients are on: it computes none.

    Call it under `torch.no_grad()`, or pass `tensor.detach()`; the compiled function itself computes gradients.
    """

    place: int
    what = "a pinned call computes no gradients, and argument {place} requires them"
    advice = (
        "call it under torch.no_grad(), or pass argument.detach(); for gradients call the compiled function"
    )


@dataclass(eq=False)
class NoModule(AirError, TypeError):
    """`release` was given something that has no parameters.

    Give it modules, or call it without arguments: then it releases the captures of all compiled functions.
    """

    kind: str
    what = "release takes modules, and was given an object of type {kind}"
    advice = "give it the module whose parameters the function reads, or nothing, for all compiled functions"


@dataclass(eq=False)
class CannotSimulate(AirError):
    """`air COMMAND --sim` needs a package that is not installed.

    Install what the message says in the environment of the `air` command, or leave out `--sim`.
    """

    package: str
    install: str
    what = "--sim needs {package}: not installed"
    advice = "install it: {install}"


_COST: Final = "and each costs a launch by the host and a copy of what crosses the cut"
_EXTENTS: Final = {
    0: "is not compiled ({mode}): these operators run eagerly, and nothing is left to compile",
    1: f"is cut, and one piece of it is compiled ({{mode}}): these operators run eagerly, {_COST}",
}
_MANY_PIECES: Final = (
    f"is cut into {{pieces}} compiled pieces ({{mode}}): these operators run eagerly between them, {_COST}"
)


class GraphSplit(UserWarning):
    """Some operators of a graph run eagerly, between compiled pieces; the message names each with its line.

    Move them out of the compiled function, or register a converter; `config.air.uncapturable = "error"` (in
    max-autotune `config.air.unsupported = "error"`) makes it an error.
    """

    def __init__(
        self, mode: str, graph: str, pieces: int, left: tuple[tuple[str, str, str | None], ...]
    ) -> None:
        self.mode = mode
        self.graph = graph
        self.pieces = pieces
        self.left = left

    def __str__(self) -> str:
        extent = _EXTENTS.get(self.pieces, _MANY_PIECES).format_map(vars(self))
        lines = [f"{self.graph} {extent}:"]
        lines.extend(f"  {operator}: {why}\n    {place or ''}".rstrip() for operator, why, place in self.left)
        return "\n".join(lines)


class BucketsIgnored(UserWarning):
    """Buckets are declared on an input of a graph that runs in pieces: each size is captured as it comes.

    Move the operator that the message names out of the compiled function, or declare no buckets.
    """

    def __init__(self, graph: str, operator: str, reason: str, place: str | None) -> None:
        self.graph, self.operator = graph, operator
        self.reason, self.place = reason, place

    def __str__(self) -> str:
        lines = [
            f"{self.graph} runs in pieces, and buckets have no effect on it: each size is captured as it comes",
            f"  {self.operator}: {self.reason}",
        ]
        return "\n".join([*lines, f"    {self.place}"] if self.place else lines)


class NotJoined(UserWarning):
    """Forward and backward are compiled each on its own, where `aot_config_enable_joint_graph` asks for one graph.

    Do what the message says, or leave the option off; the gradients are the same.
    """

    def __init__(self, reason: str, place: str | None, advice: str = "") -> None:
        self.reason, self.place, self.advice = reason, place, advice

    def __str__(self) -> str:
        lines = [f"forward and backward are two graphs (aot_config_enable_joint_graph): {self.reason}"]
        lines.extend(
            f"  {name:<8}{text}" for name, text in (("at", self.place), ("advice", self.advice)) if text
        )
        return "\n".join(lines)


class BudgetIgnored(UserWarning):
    """A training step saves for its backward what it saves without torch's `activation_memory_budget`.

    Checkpoint what saves much (`torch.utils.checkpoint`); the gradients are the same either way.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __str__(self) -> str:
        return f"activation_memory_budget is ignored: {self.reason}; checkpoint what saves much"


class DebugFolderWarning(UserWarning):
    """The folder of `TORCH_COMPILE_DEBUG=1` cannot be written; the program goes on without it.

    Do what the message says, or move the folder with `torch._dynamo.config.debug_dir_root`.
    """


class CompiledByAnother(UserWarning):
    """A function that another backend compiled is looked at as AIR compiles it, by the default configuration.

    Give `compiler_config` to choose the configuration.
    """

    def __init__(self, call: str, backend: str) -> None:
        self.call, self.backend = call, backend

    def __str__(self) -> str:
        said = f"the function is compiled with {self.backend!r}; {self.call} uses AIR's default configuration"
        return f"{said}\n  advice  {self.call}(..., compiler_config=...) chooses a configuration of AIR"
