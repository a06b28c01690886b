"""Every error of air-geir."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from air_config.errors import AirError

if TYPE_CHECKING:  # errors are also those of programs that compile nothing
    from air_graph.pieces import LeftOut


class GeirError(AirError):
    """Base of every error this package raises on purpose.

    Catch it to handle every error of the package; `what`, `where` and `advice` are its parts.
    """


class GraphError(GeirError):
    """An edit would leave the graph in a state that no engine can read.

    Correct the edit: names are unique, every edge starts at a node of the same graph, and there is one output.
    """


class PrototypeError(GeirError):
    """A node does not fit the prototype of its operator type.

    Compare the inputs and attributes with the prototype, which the message shows.
    """


class UnknownOperatorError(PrototypeError):
    """No prototype is known for this operator type.

    Correct the type, or describe your operator with `air_geir.prototypes.register(...)`.
    """


class AttributeKindError(PrototypeError):
    """The value of an attribute is not of the kind the prototype asks for.

    Give a value of the kind that the message names, or say the kind with `ge.attr`.
    """


class ExpressionError(GeirError):
    """A symbolic size cannot be written as an expression, or cannot be evaluated.

    Write the size with `+ - * // % ** min max`, or make it static (`dynamic=False`).
    """


class DTypeError(GeirError):
    """A data type has no counterpart on the other side.

    Cast the tensor to a type that both sides have.
    """


class ConverterError(GeirError):
    """A converter does not fit its operator, or two converters claim the same one.

    Give the function the parameters of the operator's schema, and `unregister()` a converter that it replaces.
    """


@dataclass(eq=False)
class ConverterFailed(ConverterError):
    """The function of a converter raised, or gave something that is no result of its operator.

    Repair the function at the line that the message names; the cause of this error is what the function raised.
    """

    target: str
    fault: str
    call: str | None
    where: str
    advice: str

    what = "the converter of {target} {fault}"

    def details(self) -> Iterable[tuple[str, object]]:
        yield "called at", self.call


@dataclass(eq=False)
class ConverterRefuted(ConverterError, AssertionError):
    """What a converter computes is not what eager torch computes, in one of the samples.

    Compare the operators that it emits with the documents of torch's operator; the message has the sample.
    """

    target: str
    number: int
    sample: str
    difference: str

    what = "the converter of {target} is wrong in sample {number}: {sample}\n{difference}"
    advice = "compare what the converter emits with what torch documents for the operator"


class CannotConvert(GeirError):
    """A converter cannot translate the arguments of a call; `ctx.refuse()` raises it.

    Change the call as the message says; the graph's `UnsupportedGraphError` lists it with the line of your model.
    """


class UnsupportedGraphError(GeirError):
    """Operators of a graph have no translation to Ascend IR; every one is listed.

    Do what the advice of the message says: change the calls or their converters, register a converter, give a
    decomposition, or let torch run them with `config.air.unsupported = "split"`, the default.
    """

    def __init__(self, graph: str, found: Sequence[LeftOut], *, advice: str) -> None:
        self.graph = graph
        self.found = tuple(found)
        nodes = len(self.found)
        targets = dict.fromkeys(u.target for u in self.found)
        lines = [f"graph {graph}: {len(targets)} operators ({nodes} nodes) cannot be lowered to Ascend IR"]
        for target in targets:
            group = [u for u in self.found if u.target == target]
            lines.append(f"  {target} ({len(group)}x): {group[0].reason}")
            lines.extend(f"      {place}" for place in dict.fromkeys(u.source or u.node for u in group))
        super().__init__("\n".join(lines), advice=advice)


class FileFormatError(GeirError):
    """The bytes are not an Ascend IR model, or break a rule of the loader.

    Check that the file is complete and is an `.air` model; the message names the rule and the place.
    """


class VerificationError(GeirError):
    """A graph or file breaks rules of the loader; every one is listed.

    Repair each rule of the list; it is raised before an engine sees the graph.
    """


class EngineError(GeirError, RuntimeError):
    """An engine cannot compile or run a graph.

    Read the engine's message in the error; `config.air.engine = "reference"` runs the graph on the CPU to compare.
    """


class CompilationFailed(EngineError):
    """An engine does not compile a graph, for a reason that names no operator; nothing of it has run.

    Report it with the graph (`config.debug.graph_dump`). Unless `config.air.unsupported = "error"` asks for this error,
    the graph runs eagerly, with a warning.
    """


class OutOfMemory(EngineError, torch.OutOfMemoryError):
    """The device has no memory for a graph; a program that catches torch's error catches it.

    Free tensors, take smaller batches, or close graphs that are no longer called.
    """


class WriteRefused(EngineError):
    """A graph would write an argument that torch lets nobody write here: one that was made in inference mode.

    Call inside `torch.inference_mode()`, or pass a clone that was made outside.
    """


class ContractError(EngineError):
    """A compiled graph gave a result with another layout, or in other memory, than eager does.

    It is a defect of AIR: report it with the line that the message names. `.clone()` of the result avoids it meanwhile.
    """


class EngineUnavailableError(EngineError):
    """The engine cannot be used on this machine.

    Install what the message names, or choose another engine; `air doctor` shows what is installed.
    """


class OptionError(GeirError):
    """An option cannot be passed to the engine.

    Correct the option, or give all graphs of the process the same session options.
    """


class ExportError(GeirError):
    """A model cannot be written to disk.

    Export one full graph with tensors as results, to a folder that can be written.
    """


class ChecksLeftOut(UserWarning):
    """A graph that is written to disk does not check a number that only a run knows, as the program does.

    Ascend IR has nothing that stops. Check the number where the graph runs, or take the check out of the model.
    """

    def __init__(self, where: str) -> None:
        super().__init__(f"the written graph does not make this check of your program: {where}")


class GearError(GeirError, AssertionError):
    """The gears of several dims cannot be combined, or a call has a size that is none of them.

    Call with a size that was declared; `dynamic_gears_merge_policy` selects how gears of several dims combine.
    """
