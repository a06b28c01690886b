"""The immutable record of one captured shape key, and the function that a call runs.

`run(args)` is written for the record at hand: one address test, the copies that are needed, the replay, the
outputs.  It returns None, having done nothing, when an address has moved or somebody still has memory that was lent
to callers; the executable then finds out why.

    def run(args):
        if profiler._is_profiler_enabled: return in_profile(args)
        if not same(*args): return None
        if owners(94210) != 2 or references(cell0[0]) != 3 or at0() != 140211: return None
        copy0(args[5], True)
        replay()
        count[0] += 1
        counted = counters["air"]
        counted["replays"] += 1
        counted["copies"] += 1
        counted["copied_bytes"] += 4096
        return (out0.data,)

Where that is all that a call does, a builtin does it: `_one_builtin`.

While torch's profiler records, `in_profile` does the same with names round the copies and the replay.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch.autograd import profiler

from air_aclgraph._addresses import AddressTests
from air_aclgraph._clashes import COPIES, Cleared
from air_aclgraph._copies import Copies, back, batched
from air_aclgraph._kept import REFERENCES, Loan, owners, references
from air_aclgraph._key import Key
from air_aclgraph._memory import flat, overlaps_itself, place_in_storage, whole
from air_aclgraph._one_builtin import counted, in_one_builtin
from air_aclgraph._outputs import (
    Constant,
    Finish,
    InputView,
    Output,
    OwnMemory,
    Repeated,
    SameInput,
    cloner,
    related,
)
from air_aclgraph._runtime import Recording, StreamTest
from air_aclgraph._slots import Kind
from air_aclgraph.errors import InputRefused
from air_graph import by_storage, storage_of, wait_for
from air_graph.spans import span_name

Run = Callable[[Sequence[Any]], "tuple[Any, ...] | None"]


@dataclass(eq=False)
class Captured:
    """Everything that belongs to one shape key, and the function that its calls run; replaced as a whole."""

    graph: str
    """What torch's profiler calls the graph."""
    key: Key
    recording: Recording
    kinds: tuple[Kind, ...]
    inputs: tuple[Any, ...] = field(repr=False)
    outputs: tuple[Output, ...] = field(repr=False)
    indices: list[int] = field(repr=False)
    """The inputs whose address is checked."""
    count: list[int] = field(repr=False)
    tests: AddressTests = field(repr=False)
    finish: Finish = field(repr=False)
    ready: StreamTest | None = None
    copies: Copies | None = field(default=None, repr=False)
    copies_back: Copies | None = field(default=None, repr=False)
    fixed: tuple[Any, ...] | None = field(default=None, repr=False)
    """The outputs, where they are the same objects in every call."""
    before_replay: tuple[Callable[[], object], ...] = ()
    watch: Callable[[Sequence[Any]], bool] | None = None
    check_overlap: bool = False
    values: Callable[[Sequence[Any]], Any] | None = None
    wholes: frozenset[int] = frozenset()
    """The inputs whose whole storage the graph addresses."""
    awaited: frozenset[int] = frozenset()
    """The inputs on the host whose copy to the device has to be done before the call returns."""
    in_flight: tuple[int, ...] = ()
    """The inputs that collectives outside the graph may still write: a call waits for them first."""
    settled: Callable[[], bool] | None = None
    """Asked before a replay; ends the call when it says yes."""
    loans: tuple[Loan, ...] | None = None
    """Where there are some, outputs are the memory of the capture, in tensors that are new in every call."""
    copied_out: frozenset[int] = frozenset()
    """The outputs among those that are copied nevertheless."""
    turn: list[bool] | None = None
    others: Callable[[], bool] | None = None
    """Whether the process groups of its collectives have been made anew; asked before a replay."""
    follows_tensors: bool = False
    """Whether a replay goes through the tensors of `inputs` and not to their addresses."""
    outputs_shared: bool = False  # their memory serves other captures as well
    pointers: list[Any] = field(init=False, repr=False)
    run: Run = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.pointers = [t.data_ptr() if isinstance(t, Tensor) else None for t in self.inputs]
        self.run = _run_of(copy(self))  # of a copy: what holds itself waits for the garbage collector

    def is_held(self) -> bool:
        """Whether a caller still has memory that the next replay would write."""
        return bool(self.held_places())

    def held_places(self) -> frozenset[int]:
        """The outputs in such memory."""
        held = {loan.storage for loan in self.loans or () if loan.is_held()}
        return frozenset(at for at, own in self._own() if storage_of(own.tensor) in held)

    def lent_places(self) -> frozenset[int]:
        """The outputs in memory that callers are lent."""
        return frozenset(at for at, _ in self._own()) - self.copied_out

    def _own(self) -> Iterator[tuple[int, OwnMemory]]:
        return ((at, output) for at, output in enumerate(self.outputs) if isinstance(output, OwnMemory))

    def moved(self, args: Sequence[Any]) -> list[int]:
        """The checked inputs whose address is another one now, or whose captured tensor has lost its memory."""
        looked_at = (args, self.inputs) if self.follows_tensors else (args,)
        return [i for i in self.indices if any(t[i].data_ptr() != self.pointers[i] for t in looked_at)]

    def has_memory_of(self, index: int) -> bool:
        """Whether the memory of an input is still there: its owner may have emptied the storage."""
        there: bool = self.inputs[index].data_ptr() == self.pointers[index]
        return there

    def cause_of_move(self, moved: Sequence[int]) -> str:
        """Why the key is captured again when these inputs lie elsewhere."""
        kinds = {self.kinds[i] for i in moved}
        first = next((kind for kind in (Kind.MUTATED, Kind.STATIC, Kind.LENT) if kind in kinds), Kind.BOUND)
        return f"{first.value} input moved"

    @functools.cached_property
    def alone(self) -> frozenset[int]:
        """The inputs whose storage no other input has."""
        return frozenset(group[0] for group in by_storage(self.inputs) if len(group) == 1)

    @property
    def nbytes(self) -> int:
        """Bytes that belong to this key alone."""
        return self.recording.nbytes

    @property
    def copied(self) -> list[Tensor]:
        """The memory that a call copies inputs to."""
        return [t for t, kind in zip(self.inputs, self.kinds, strict=True) if kind in COPIES]

    @functools.cached_property
    def to_copy(self) -> tuple[int, ...]:
        """The inputs of which there is something to copy."""
        pairs = enumerate(zip(self.inputs, self.kinds, strict=True))
        return tuple(i for i, (t, kind) in pairs if kind in COPIES and (t.numel() or i in self.wholes))

    @functools.cached_property
    def to_copy_alone(self) -> frozenset[int]:
        """Those that are copied each by itself: a whole storage, what overlaps itself, what the host waits for."""
        special = self.wholes | self.awaited
        return frozenset(i for i in self.to_copy if i in special or overlaps_itself(self.inputs[i]))

    def buffers(self) -> dict[int, int]:
        """The storages that copied inputs land in, and their bytes; keys share them."""
        return {s._cdata: s.nbytes() for s in (t.untyped_storage() for t in self.copied)}


class _Lines:
    """The body of one `run` and the objects it names."""

    def __init__(self) -> None:
        self.scope: dict[str, Any] = {}
        self.lines: list[str] = []
        self._indent = "    "

    def bind(self, value: object) -> str:
        name = f"n{len(self.scope)}"
        self.scope[name] = value
        return name

    def add(self, text: str) -> None:
        self.lines.append(self._indent + text)

    def enter(self, text: str) -> None:
        """What follows belongs to this line, until `leave`."""
        self.add(text)
        self._indent += "    "

    def leave(self, text: str, then: str) -> None:
        """Ends what `enter` began with a clause of one line."""
        self._indent = self._indent[:-4]
        self.lines += [self._indent + text, self._indent + "    " + then]

    @contextmanager
    def named(self, name: str | None) -> Iterator[None]:
        """What is added inside has this name in torch's profiler; None adds none."""
        if name is None:
            yield
            return
        before = len(self.lines)
        self.enter(f"with {self.bind(torch._C._profiler._RecordFunctionFast)}({name!r}):")
        yield
        self._indent = self._indent[:-4]
        if len(self.lines) == before + 1:
            self.lines.pop()

    def function(self, explain_error: Callable[[RuntimeError], RuntimeError] | None) -> Run:
        lines = self.lines
        if explain_error is not None:
            explain = self.bind(explain_error)
            inside = ["    " + line for line in lines]
            lines = [
                "    try:",
                *inside,
                "    except RuntimeError as error:",
                f"        raise {explain}(error)",
            ]
        source = "\n".join(["def run(args):", *lines]) + "\n"
        exec(compile(source, "<air call>", "exec"), self.scope)
        # left there, it would hold itself, and the recording, for the garbage collector to find
        run: Run = self.scope.pop("run")
        return run


def _run_of(captured: Captured) -> Run:
    """The function that one call of this key runs; while a profiler records, it leaves the call to another one."""
    profiled = functools.cache(functools.partial(_written, captured))
    return in_one_builtin(captured, _written(captured, lambda args: profiled()(args)))


def _written(captured: Captured, in_profile: Run | None = None) -> Run:
    """Gives a call to `in_profile` while a profiler records; without one it is that function itself."""
    lines, named = _Lines(), in_profile is None
    if in_profile is not None:
        lines.add(f"if {lines.bind(profiler)}._is_profiler_enabled: return {lines.bind(in_profile)}(args)")
    taken = None if captured.turn is None else f"{lines.bind(captured.turn)}[0]"
    if taken is not None:
        lines.add(f"if {taken}: return None")
    _test_lines(lines, captured)
    if taken is not None:
        lines.enter("try:")
        lines.add(f"{taken} = True")
    for name, write in (("copy", _copy_lines), ("replay", _replay_lines), ("copy back", _carry_lines)):
        with lines.named(span_name(name, captured.graph, captured.key) if named else None):
            write(lines, captured)
    lines.add(f"{lines.bind(captured.count)}[0] += 1")
    _count_lines(lines, captured)
    _return_lines(lines, captured)
    if taken is not None:
        lines.leave("finally:", f"{taken} = False")
    return lines.function(captured.recording.explain_error)


def _test_lines(lines: _Lines, captured: Captured) -> None:
    """Whatever ends the call before anything is done."""
    if captured.ready is not None:
        test = captured.ready
        current, last, switch = lines.bind(test.current), lines.bind(test.last), lines.bind(test.switch)
        lines.add(f"if {current}() != {last}[0] and not {switch}(): return None")
    if captured.others is not None:
        lines.add(f"if {lines.bind(captured.others)}(): return None")
    if captured.indices:
        same = captured.tests(captured.indices, [captured.inputs[i] for i in captured.indices])
        lines.add(f"if not {lines.bind(same)}(*args): return None")
    for loan in captured.loans or ():
        _loan_lines(loan, lines)
    if captured.settled is not None:
        lines.add(f"if {lines.bind(captured.settled)}(): return None")
    if captured.check_overlap:
        _overlap_lines(lines, captured.kinds, captured.wholes)
    if captured.watch is not None:
        lines.add(f"if {lines.bind(captured.watch)}(args): return None")


def _replay_lines(lines: _Lines, captured: Captured) -> None:
    recording = captured.recording
    for step in captured.before_replay:
        lines.add(f"{lines.bind(step)}()")
    if recording.replay_with is None or captured.values is None:
        lines.add(f"{lines.bind(recording.replay)}()")
    else:
        lines.add(f"{lines.bind(recording.replay_with)}({lines.bind(captured.values)}(args))")


def _return_lines(lines: _Lines, captured: Captured) -> None:
    if captured.loans is not None:
        _lent_lines(lines, captured.outputs, captured.copied_out)
    elif captured.fixed is not None:
        lines.add(f"return {lines.bind(captured.fixed)}")
    else:
        lines.add(f"return {lines.bind(captured.finish)}(args)")


def _carry_lines(lines: _Lines, captured: Captured) -> None:
    """What the graph wrote into a carried input is taken back to the caller's."""
    plain = []
    for index, (target, kind) in enumerate(zip(captured.inputs, captured.kinds, strict=True)):
        if kind is Kind.CARRIED and index in captured.wholes:
            lines.add(f"{lines.bind(whole)}(args[{index}]).copy_({lines.bind(whole(target))}, True)")
        elif kind is Kind.CARRIED:
            plain.append((index, target))
    if plain:
        copy_back = lines.bind((captured.copies_back or back)([target for _, target in plain]))
        lines.add(f"{copy_back}({', '.join(f'args[{index}]' for index, _ in plain)})")


def _loan_lines(loan: Loan, lines: _Lines) -> None:
    """`Loan.is_held` without the call of it."""
    owned = f"{lines.bind(owners)}({loan.storage}) != {loan.owners}"
    named = f"{lines.bind(references)}({lines.bind(loan.cell)}[0]) != {REFERENCES}"
    elsewhere = f"{lines.bind(loan.tensor.data_ptr)}() != {loan.pointer}"
    lines.add(f"if {owned} or {named} or {elsewhere}: return None")


def _lent_lines(lines: _Lines, outputs: Sequence[Output], copied: Collection[int]) -> None:
    """Returns outputs without copies; what is returned twice is made once, and what shares memory together."""
    twice = {output.place for output in outputs if isinstance(output, Repeated)}
    texts = _copied_lines(lines, outputs, sorted(copied)) if copied else {}
    for number, group in enumerate(_of_one_storage(outputs)):
        own = [output for output in (outputs[place] for place in group) if isinstance(output, OwnMemory)]
        if texts.keys().isdisjoint(group):
            lines.add(f"group{number} = {lines.bind(functools.partial(anew, own))}()")
            texts |= {place: f"group{number}[{at}]" for at, place in enumerate(group)}
    for place in sorted(twice - texts.keys()):
        lines.add(f"made{place} = {_lent(outputs[place], lines)}")
        texts[place] = f"made{place}"
    texts |= {at: _lent(output, lines) for at, output in enumerate(outputs) if at not in texts}
    places = [output.place if isinstance(output, Repeated) else place for place, output in enumerate(outputs)]
    lines.add(f"return ({''.join(texts[place] + ', ' for place in places)})")


def _copied_lines(lines: _Lines, outputs: Sequence[Output], places: Sequence[int]) -> dict[int, str]:
    """Makes the outputs that are copied nevertheless, and says what each is called."""
    own = [output for output in (outputs[place] for place in places) if isinstance(output, OwnMemory)]
    clone = cloner([output.tensor for output in own], [output.result.owning for output in own])
    lines.add(f"copies = {lines.bind(clone)}()")
    return {place: f"copies[{at}]" for at, place in enumerate(places)}


def anew(own: Sequence[OwnMemory]) -> list[Tensor]:
    """New tensors over memory that outputs have, or share: they are to each other what they are in eager."""
    if len(own) == 1:
        return [own[0].tensor.data]
    tensors, owning = [one.tensor for one in own], [one.result.owning for one in own]
    return related(tensors, owning, tensors[0].untyped_storage())


def _of_one_storage(outputs: Sequence[Output]) -> list[list[int]]:
    """The places of the outputs that share memory of the capture with others."""
    own = (output.tensor if isinstance(output, OwnMemory) else None for output in outputs)
    return [group for group in by_storage(own) if len(group) > 1]


def _lent(output: Output, lines: _Lines) -> str:
    """One output without a copy; `data` is a tensor that has nothing but the memory in common with this one."""
    if isinstance(output, OwnMemory):
        return f"{lines.bind(output.tensor)}.data"
    if isinstance(output, SameInput):
        return f"args[{output.index}]"
    if isinstance(output, InputView):
        return f"{lines.bind(output.of)}(args[{output.index}])"
    # one that repeats another is made with that
    return lines.bind(output.value) if isinstance(output, Constant) else "None"


def _count_lines(lines: _Lines, captured: Captured) -> None:
    """Dynamo's counter is asked for in every call: whoever clears the counters drops the one of the last call."""
    lines.add(f'counted = {lines.bind(counters)}["air"]')
    for name, number in counted(captured).items():
        lines.add(f'counted["{name}"] += {number}')


def _copy_lines(lines: _Lines, captured: Captured) -> None:
    if captured.in_flight:
        lines.add(f"{lines.bind(wait_for)}(args, {captured.in_flight})")
    for index in sorted(captured.to_copy_alone):
        _copy_alone_line(lines, captured, index)
    together = [index for index in captured.to_copy if index not in captured.to_copy_alone]
    targets = [captured.inputs[index] for index in together]
    sources = ", ".join(f"args[{index}]" for index in together)
    if captured.copies is not None and together:
        lines.add(f"{lines.bind(captured.copies(targets))}({sources})")
    elif len(together) == 1:
        lines.add(f"{lines.bind(targets[0].copy_)}({sources}, True)")
    elif together:
        lines.add(f"{lines.bind(batched(targets))}({sources})")


def _copy_alone_line(lines: _Lines, captured: Captured, index: int) -> None:
    target, source = captured.inputs[index], f"args[{index}]"
    goes_on = f"not {source}.is_pinned()" if index in captured.awaited else "True"
    if index in captured.wholes:
        lines.add(f"{lines.bind(_whole_copy(index, target))}({source})")
    elif overlaps_itself(target):
        lines.add(f"{lines.bind(flat(target).copy_)}({lines.bind(flat)}({source}), {goes_on})")
    else:
        lines.add(f"{lines.bind(target.copy_)}({source}, {goes_on})")


def _whole_copy(index: int, target: Tensor) -> Callable[[Tensor], None]:
    """Copies the whole storage of an input; a pinned call has no key that says where the input lies in it."""
    into, place = whole(target).copy_, place_in_storage(target)

    def copied(source: Tensor) -> None:
        if place_in_storage(source) != place:
            raise InputRefused(
                f"input {index} begins at another element of its storage, or that has another size, than when it was "
                "captured: the graph addresses its storage (as_strided, storage_offset)",
                advice="call the compiled function instead of the pinned one, or pass a contiguous copy",
                input=str(index),
            )
        into(whole(source), True)

    return copied


def _overlap_lines(lines: _Lines, kinds: tuple[Kind, ...], wholes: frozenset[int]) -> None:
    """Addresses of copied inputs are compared with the written memory once, then remembered."""
    cleared = Cleared(kinds, wholes)
    if cleared.carried:
        where = ", ".join(f"args[{index}].data_ptr()" for index in cleared.carried)
        known, check = lines.bind(cleared.where), lines.bind(cleared.carried_elsewhere)
        lines.add(f"where = ({where},)")
        lines.add(f"if where != {known}[0] and not {check}(args, where): return None")
    for index, addresses in cleared.copied.items():
        known, check = lines.bind(addresses), lines.bind(cleared.check_of(index))
        lines.add(f"if args[{index}].data_ptr() not in {known} and not {check}(args): return None")
