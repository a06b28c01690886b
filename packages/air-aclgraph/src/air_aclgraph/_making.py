"""How a capture is made: the memory that it reads, the run that is recorded, and the function that replays it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.utils._pytree import TreeSpec, tree_flatten

import air_streams
from air_aclgraph import _addresses
from air_aclgraph._captured import Captured
from air_aclgraph._clashes import CHECKED, COPIES
from air_aclgraph._kept import Loan, Stage, loans_of
from air_aclgraph._key import Key
from air_aclgraph._large import large
from air_aclgraph._lent import bind_lent, handed_out, lent_places, storages_to_bind
from air_aclgraph._memory import Buffers, fill, whole
from air_aclgraph._moved import calls_worth_a_capture
from air_aclgraph._options import Options
from air_aclgraph._outputs import (
    GuardedOutputs,
    Output,
    OwnMemory,
    describe,
    finisher,
    fixed_outputs,
    mixed,
)
from air_aclgraph._policy import KeyPolicy, Watches
from air_aclgraph._reach import refuse_format
from air_aclgraph._results import outputs_of
from air_aclgraph._runtime import Recording, Request, Runtime, Sample
from air_aclgraph._siblings import is_sibling
from air_aclgraph._slots import Kind, Slot, is_on
from air_aclgraph._stats import History
from air_aclgraph._straight import Straight
from air_aclgraph._update import UpdatePlan
from air_aclgraph.errors import AclGraphError, CaptureFailed
from air_graph import inputs_in_flight, saved_results, storage_of
from air_graph import source_of as where
from air_graph.ranks import Groups
from air_graph.spans import span, span_name


class Making:
    """Makes the captures of one graph; which of them there are, the executable knows."""

    def __init__(
        self,
        gm: GraphModule,
        body: Straight,
        slots: Sequence[Slot],
        runtime: Runtime,
        options: Options,
        name: str,
        updates: UpdatePlan | None,
        *,
        reads_lent: bool = False,
    ) -> None:
        self.name = name
        self._reads_lent = reads_lent
        self.options = options
        self.runtime = runtime
        self.slots = tuple(slots)
        self.updates = updates
        self.wholes = frozenset(slot.index for slot in self.slots if slot.whole)
        self._awaited = frozenset(slot.index for slot in self.slots if slot.is_awaited)
        self._bindable = frozenset(
            s.index for s in self.slots if is_on(s.node.meta.get("val"), runtime.device)
        )
        self.in_flight = inputs_in_flight(gm)
        """The inputs that collectives outside the graph may still write."""
        self._took = 0.0  # the last capture, in seconds
        self.buffers = Buffers(runtime.device)
        self.guarded = GuardedOutputs(name)
        self.copies = runtime.copies()
        self.copies_back = runtime.copies_back()
        self.watches = Watches(options.bind_after, self._bindable)
        self.given, self.results, spec, self._is_flat = outputs_of(gm)
        self.saved = saved_results(gm)
        """The outputs that only a backward half reads; None where this is no forward half."""
        made = [place for place in self.saved or () if self.given[place] is None]
        self.lends = options.outputs == "kept" and bool(made)
        """Whether some of these are memory of captures, and lent."""
        self.spec: TreeSpec | None = None if self._is_flat else spec
        """How the results are put together; None where they are one flat tuple."""
        self.body = body
        self.history = History()
        self._tests = _addresses.Shared(runtime.address_tests())
        self.ready = runtime.ready()
        self.turn = runtime.turn()
        self._groups = air_streams.groups_of(gm)
        self._meant = Groups(self._groups)
        self._constants = frozenset(
            storage_of(value) for value in body.keep.values() if isinstance(value, Tensor)
        )

    def bound_to_lent(self, policy: KeyPolicy, args: Sequence[Any]) -> tuple[Kind, ...]:
        """The kinds of the inputs of a capture that is to be made, once it is known what of them is lent."""
        reads_lent = self._reads_lent and not self.options.skip_validation
        return bind_lent(policy, args, self._bindable) if reads_lent else tuple(policy.kinds)

    def inputs(self, args: Sequence[Any], kinds: Sequence[Kind]) -> tuple[Any, ...]:
        """What the capture sees: the caller's memory for checked inputs, buffers for copied ones."""
        inputs: list[Any] = []
        for index, (value, kind) in enumerate(zip(args, kinds, strict=True)):
            if kind in (Kind.BOUND, Kind.LENT):
                self.buffers.drop(index)
            if kind in COPIES:
                inputs.append(self._buffer(index, value))
            elif kind is Kind.LENT:
                inputs.append(self.runtime.unowned(value))
            else:
                inputs.append(value.detach() if isinstance(value, Tensor) else value)
        return tuple(inputs)

    def _buffer(self, index: int, value: Tensor) -> Tensor:
        """Memory of our own that holds what the graph reads of an input.

        Made outside of inference mode, in which it could be written nowhere else: not in the recording of a graph that
        writes it, and not before a replay for a caller outside.
        """
        with torch.inference_mode(False), torch.no_grad():
            buffer = self.runtime.buffer_like(value)
            if index in self.wholes:
                refuse_format(self.slots[index].name, buffer)
                buffer = self.buffers.whole_like(index, value)
                whole(buffer).copy_(whole(value))
                return buffer
            if buffer is None:
                buffer = self.buffers.like(index, value)
            fill(buffer, value)
            return buffer

    def record(
        self,
        key: Key,
        inputs: tuple[Any, ...],
        kinds: Sequence[Kind],
        sample: Sample | None,
        *,
        copied: bool,
        lends: bool,
    ) -> Recording:
        """Runs the graph on these inputs and records it; an error says which line of the user it is about."""
        written = [t for t, k in zip(inputs, kinds, strict=True) if k is Kind.MUTATED]
        inference = torch.is_inference_mode_enabled() and any(t.is_inference() for t in written)
        place = next((result.where for result in reversed(self.results) if result.where is not None), None)
        options = self.options
        alone = not self._reads_lent and not is_sibling(key)  # many small pools would waste memory
        own_pool = lends and alone and options.pool is None
        keepable = options.outputs in ("kept", "guarded") and not copied  # such memory is no other capture's
        request = Request(
            error_mode=options.error_mode,
            pool=options.pool,
            share_outputs=copied and options.share_pool,
            sample=sample if keepable and not own_pool else None,
            own_pool=own_pool,
            in_inference_mode=inference,
            share_pool=options.share_pool,
            super_kernel=options.super_kernel,
            super_kernel_options=options.super_kernel_options,
            super_kernel_debug_options=options.super_kernel_debug_options,
            graph=self.name,
            where=place,
            owning=tuple(result.owning for result in self.results),
        )
        started = time.perf_counter()
        try:
            with span(span_name("capture", self.name, key)):
                recording = self.runtime.record(self._flat_body, inputs, request)
        except AclGraphError as error:
            if error.where is None:
                error.where = where(self.body.node_at(error))
            if isinstance(error, CaptureFailed):
                error.graph, error.key = self.name, key
            raise
        self._took = time.perf_counter() - started
        recording.replay = self._in_turn(recording.replay)
        if recording.replay_with is not None:
            recording.replay_with = self._in_turn(recording.replay_with)
        return recording

    def _in_turn(self, replay: Callable[..., None]) -> Callable[..., None]:
        return air_streams.in_turn(replay, self._groups, self.runtime.device)

    def _groups_are_others(self) -> bool:
        return self._meant.are_others()

    def renew_groups(self, drop: Callable[[], None]) -> None:
        """Drops what was captured with process groups that have been destroyed and made anew since."""
        if self._meant.are_others():
            drop()
            self._meant = Groups(self._groups)
            self.history.note("process groups were made anew: captured again")

    def _flat_body(self, *inputs: Any) -> tuple[Any, ...]:
        return self.flat_outputs(self.body.function(*inputs))

    def flat_outputs(self, results: Any) -> tuple[Any, ...]:
        """The results of a run as one tuple."""
        return tuple(results) if self._is_flat else tuple(tree_flatten(results)[0])

    def finished(
        self,
        key: Key,
        kinds: tuple[Kind, ...],
        policy: KeyPolicy,
        inputs: tuple[Any, ...],
        recording: Recording,
        count: list[int] | None = None,
        *,
        shared: bool = False,
        loans: tuple[Loan, ...] | None = None,
    ) -> Captured:
        """The recording with the function around it that a call runs; `loans` are those it had before."""
        mode = self.options.outputs
        outputs = describe(recording.outputs, self.given, inputs, self.results)
        lent = lent_places(policy.keeping, outputs, self.saved or ())
        if mode != "kept" or policy.keeping.stage not in (Stage.LENT, Stage.SAVED):
            loans = None
        elif loans is None:  # made anew, they would take those before them for somebody's
            loans = self._loans(policy, [outputs[place] for place in sorted(lent)], recording)
        if self.saved is not None:
            recording.lent = storages_to_bind(outputs, self.saved, inputs, kinds, loans or ())
        watched = mode == "kept" and policy.keeping.stage is Stage.WATCHED
        memory = [o.tensor for o in outputs if isinstance(o, OwnMemory)]
        keeping = policy.keeping if watched and memory else None
        own = frozenset(storage_of(tensor) for tensor in memory)
        checked = CHECKED[1:] if self.options.frozen_parameter else CHECKED
        indices = [i for i, kind in enumerate(kinds) if kind in checked]
        if self.options.skip_validation:
            indices = []
        writes = any(kind in (Kind.MUTATED, Kind.CARRIED) for kind in kinds)
        return Captured(
            graph=self.name,
            key=key,
            recording=recording,
            kinds=kinds,
            inputs=inputs,
            outputs=outputs,
            indices=indices,
            count=[0] if count is None else count,
            tests=self._tests,
            follows_tensors=self.runtime.abilities.follows_tensors,
            finish=finisher(outputs, mode, self.guarded, None if keeping is None else keeping.watch),
            ready=self.ready,
            copies=self.copies,
            copies_back=self.copies_back,
            fixed=fixed_outputs(outputs) if mode == "view" else None,
            before_replay=((lambda: self.guarded.overwrite(own)),) if mode == "guarded" else (),
            watch=self.watches.of(key, policy, kinds, lambda: self._large(inputs, kinds)),
            check_overlap=writes and not self.options.skip_validation,
            values=None if self.updates is None else self.updates.values,
            wholes=self.wholes,
            awaited=self._awaited,
            in_flight=self.in_flight,
            settled=None if keeping is None else keeping.is_settled,
            loans=loans,
            copied_out=frozenset(at for at, o in enumerate(outputs) if isinstance(o, OwnMemory)) - lent,
            turn=self.turn,
            others=self._groups_are_others if self._groups and self.runtime.device.type != "cpu" else None,
            outputs_shared=shared,
        )

    def _large(self, inputs: Sequence[Any], kinds: Sequence[Kind]) -> tuple[dict[int, int], int]:
        """The large inputs that are copied, with their bytes, and the calls after which that has cost a capture."""
        if not self.options.bind_large:
            return {}, 0
        copied = {
            i: whole(inputs[i]) if i in self.wholes else inputs[i]
            for i, kind in enumerate(kinds)
            if kind is Kind.COPIED and i in self._bindable
        }
        found = large(copied)
        return found, calls_worth_a_capture(self._took, [copied[i] for i in found], self.runtime)

    def _loans(
        self, policy: KeyPolicy, outputs: Sequence[Output], recording: Recording
    ) -> tuple[Loan, ...] | None:
        """The memory that callers of this capture are lent; None where they get copies."""
        claims = {s: n for s, n in recording.claims.items() if s not in self._constants}
        loans = loans_of([o.tensor for o in outputs if isinstance(o, OwnMemory)], claims)
        if loans is None:
            policy.keeping.give_up()
            self.history.note("outputs: copied, their memory has other owners than the capture")
        return loans

    def first_outputs(self, captured: Captured, inputs: Sequence[Any], args: list[Any]) -> tuple[Any, ...]:
        """The outputs of a recording run: views of inputs are made on the caller's own tensors.

        What that run gave is the caller's alone from here on: autograd hangs the history of a call on it.
        """
        given, captured.recording.first = captured.recording.first, ()
        for index, kind in enumerate(captured.kinds):
            if kind is Kind.CARRIED and index in self.wholes:
                whole(args[index]).copy_(whole(inputs[index]))
            elif kind is Kind.CARRIED:
                args[index].copy_(inputs[index])
        if self.options.outputs in ("view", "guarded"):
            return finisher(captured.outputs, self.options.outputs, self.guarded)(args)
        if not captured.outputs_shared:
            copies = finisher(captured.outputs, "clone", self.guarded)(args)
            return handed_out(captured, copies, computed_there=True)
        pairs = zip(captured.outputs, given, strict=True)
        firsts = [first for output, first in pairs if isinstance(output, OwnMemory)]
        return mixed(captured.outputs, lambda: firsts)(args)
