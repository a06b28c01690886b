"""An executable: one graph, its captured shape keys, and the path of a call.

A call does: key (only if the graph has symbols), one address test, the copies that are needed, replay,
outputs: `_replayer.Replayer`.  Everything else (the first call of a key, a moved address) happens off that path, in
`_off_path`, and leaves a count and a cause behind; which keys are captured, and which make room: `_key_store.KeyStore`.
"""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from air_aclgraph._abandoned import parameters_of, watch
from air_aclgraph._adopted import adopted
from air_aclgraph._captured import Captured
from air_aclgraph._clashes import clashing
from air_aclgraph._explain import capture_text, explained
from air_aclgraph._kept import Stage
from air_aclgraph._key import Key, key_function
from air_aclgraph._key_store import KeyStore
from air_aclgraph._lent import handed_out
from air_aclgraph._making import Making
from air_aclgraph._moved import carried_from_now_on, remember
from air_aclgraph._patience import Patience
from air_aclgraph._pieced import PiecedExecutable, Splitter
from air_aclgraph._pin import Pinned, run_to_pin
from air_aclgraph._placed import Placed
from air_aclgraph._plan import ResourcePlan, refuse_shortage
from air_aclgraph._policy import KeyPolicy
from air_aclgraph._remedy import remedy
from air_aclgraph._replayer import Replayer
from air_aclgraph._runtime import Recording
from air_aclgraph._siblings import Siblings, is_sibling
from air_aclgraph._slots import Kind, refuse_inputs
from air_aclgraph._stats import Stats
from air_aclgraph.errors import Closed, IllegalDuringCapture, InputRefused
from air_aclgraph.fused import Fused
from air_aclgraph.static_kernel import StaticKernels
from air_fxpasses import is_left_out
from air_graph import all_fake, fake_mode_of, storage_of, wait_for
from air_graph.executors import Executor, WholeGraph, boxed
from air_graph.progress import showing
from air_graph.spans import span, span_name

if TYPE_CHECKING:
    from air_graph.pieces import LeftOut

log = logging.getLogger(__name__)


class Executable(Replayer, WholeGraph):
    """A compiled graph: call it with the graph's inputs, get the graph's outputs."""

    def __init__(
        self,
        making: Making,
        resources: ResourcePlan,
        kernels: StaticKernels | None = None,
        placed: Placed | None = None,
    ) -> None:
        self.name = making.name
        self.options = making.options
        self.runtime = making.runtime
        self.slots = making.slots
        self.resources = resources
        self._body = making.body
        self._kernels = kernels
        self._placed = placed or Placed()
        self._history = making.history
        self._note = self._history.note
        self._making = making
        keyless = () if making.updates is None else making.updates.keyless
        key_of = key_function(self.slots, keyless)
        super().__init__(self.runtime.lock, key_of, making.spec, always_off=self.options.force_recapture)
        advice = partial(remedy, self.slots, keyless)
        self._patience = Patience(self.name, self.options.warmup, self.options.limit, self._note, advice)
        self._siblings = Siblings()
        self._stats = Stats()
        self._keys = KeyStore(
            self._captured,
            weakref.WeakMethod(self._forget),
            making,
            self._patience,
            self._siblings,
            self._placed,
            self._stats,
        )
        self._lock: Any = self.runtime.lock
        self._pid = os.getpid()
        self._closed = False
        self._splitter: Splitter | None = None
        self._instead: PiecedExecutable | None = None

    def __call__(self, *args: Any) -> Any:
        """Runs the graph on its inputs."""
        return self.boxed(args)

    @property
    def fused(self) -> Fused | None:
        """The regions of the graph that Inductor compiles."""
        return self._body.fused

    def boxed_callable(self) -> Callable[[list[Any]], Any]:
        """A plain function for AOTAutograd, which asks a compiled function whether it takes one list."""
        return boxed(lambda args: self.boxed(args))

    def _off_path(self, key: Key, args: list[Any]) -> tuple[Any, ...]:
        """A call that cannot simply be replayed; what `__torch_function__` of an input does was traced."""
        with torch._C.DisableTorchFunctionSubclass():
            if (mode := fake_mode_of(args)) is not None:
                # a pass may have put a result in the place of a value that only real inputs made
                return self._eagerly(all_fake(args, mode), "an input is fake: it has no memory")
            return self._run_off_path(key, args)

    def _run_off_path(self, key: Key, args: list[Any]) -> tuple[Any, ...]:
        """Finds out why a call is no replay, and captures if that is the answer."""
        self._refuse_closed()
        if self.runtime.is_recording():
            return self.beside(args)
        wait_for(args, self._making.in_flight)
        self._making.renew_groups(self.invalidate)
        if self._instead is not None:
            return tuple(self._instead(*args))
        key = self._siblings.key_of(key, args, self._captured)
        captured = self._captured.get(key)
        if captured is None and (early := self._early(key)) is not None:
            return self._eagerly(args, early)
        if captured is not None and self._siblings.are_several(key) and not self._always_off:
            outputs = captured.run(args)
            if outputs is not None:
                self._captured.move_to_end(key)
                return outputs
        policy = self._keys.policy(key)
        refuse_inputs(self.slots, args)
        kinds = tuple(policy.kinds)
        clash = self._clash(args, kinds)
        if clash is None and captured is not None:
            kept = self._without_capture(captured, policy, args)
            if kept is not None:
                return kept
            kinds = tuple(policy.kinds)
            clash = self._clash(args, kinds)
        if clash is not None:
            return self._eagerly(args, f"input {clash!r} shares memory that the graph writes")
        if self._is_left_out(key, policy):
            return self._eagerly(args, "left out by a bisection")
        return self._capture(key, kinds, policy, args)

    def _early(self, key: Key) -> str | None:
        """Why a key is not captured yet; such a call is to cost little more than its operators."""
        full = self._keys.full()
        return self._patience.why_not_yet(key, full, crowded=full is not None and is_sibling(key))

    def beside(self, args: list[Any]) -> tuple[Any, ...]:
        """A call inside a capture or a replay that is under way: both use the memory that this one would."""
        return self._eagerly(args, "inside another capture or replay")

    def _is_left_out(self, key: Key, policy: KeyPolicy) -> bool:
        """Whether a bisection runs this key without a capture; it is asked once per key."""
        if policy.left_out is None:
            policy.left_out = is_left_out(
                "captures", lambda: capture_text(self.name, key, self._making.results)
            )
        return policy.left_out

    def _clash(self, args: Sequence[Any], kinds: Sequence[Kind]) -> str | None:
        """The first copied input whose copy would miss a write of the graph."""
        found = set(clashing(args, kinds, self._making.wholes))
        return next((slot.name for slot in self.slots if slot.index in found), None)

    def _refuse_closed(self) -> None:
        if self._closed:
            raise Closed(f"{self.name} was closed", advice="compile the graph again")
        if self._is_of_parent():
            raise Closed(
                f"{self.name} was captured in process {self._pid}; this is its fork {os.getpid()}",
                advice="start worker processes with the spawn method: a device context does not survive a fork",
            )

    def _is_of_parent(self) -> bool:
        """Whether this process is a fork, in which the device of its parent cannot be used."""
        return os.getpid() != self._pid and self.runtime.device.type != "cpu"

    def _without_capture(
        self, captured: Captured, policy: KeyPolicy, args: list[Any]
    ) -> tuple[Any, ...] | None:
        """Decides about a key that could not be replayed as it is; gives outputs if no capture is needed."""
        moved = [] if self._always_off else captured.moved(args)
        held, settled, bound = captured.is_held(), None, None
        if moved and not held and self._adopted(captured, policy, moved, args):
            outputs = captured.run(args)
            if outputs is not None:
                return outputs
            moved = []
        if held:
            policy.keeping.give_up(captured.held_places(), captured.lent_places())
            self._note_kept_output(captured)
        elif not moved:
            settled, bound = policy.keeping.settle(), self._making.watches.ended(captured.key, policy)
        carried = [] if held else self._carried(captured, policy, moved, args)
        notes = [*([settled] if settled else []), *(bound or []), *carried]
        for note in notes:
            self._note(f"key {captured.key}: {note}")
        if bound:
            self._stats.add_cause("recaptures", "stable input bound")
            return None
        if settled or bound is not None or carried:
            again = self._with_new_run(captured, policy, carried=bool(carried))
            return again.run(args)
        if moved or not held:
            self._explain_move(captured, policy, moved)
        return None

    def _adopted(
        self, captured: Captured, policy: KeyPolicy, moved: Sequence[int], args: Sequence[Any]
    ) -> bool:
        """Whether the inputs that moved have taken over the memory of the capture."""
        first, settle = policy.is_first_move(), self.runtime.synchronize
        if not self.options.adopt or not adopted(captured, moved, args, settle, collect=first):
            return False
        self._stats.add("adopted_inputs", len(moved))
        for note in policy.took_over(moved):
            self._note(f"key {captured.key}: {note}")
        return True

    def _carried(
        self, captured: Captured, policy: KeyPolicy, moved: Sequence[int], args: Sequence[Any]
    ) -> list[str]:
        """Notes on inputs in other memory that are carried from now on; empty where there is to be a capture."""
        if not moved:
            return []
        found = carried_from_now_on(captured, moved, args, collect=policy.is_first_move())
        kinds = [found.get(index, kind) for index, kind in enumerate(policy.kinds)]
        if not found or self._clash(args, kinds) is not None:
            return []
        self.runtime.synchronize()  # another stream may still read what its caller has let go of
        self._making.watches.begin(captured.key, list(found), self._keys.calls_worth(captured, found))
        return policy.carried(found)

    def _note_kept_output(self, captured: Captured) -> None:
        """A caller still has memory that was lent: it is the caller's now, and this capture writes it no more."""
        self._stats.add_cause("recaptures", "lent output kept")
        log.info(
            "%s key %s: an output is kept across calls: captured again, copies from now on",
            self.name,
            captured.key,
        )
        self._note(f"key {captured.key}: outputs: lent -> copied, one was kept across calls")

    def _with_new_run(self, captured: Captured, policy: KeyPolicy, *, carried: bool = False) -> Captured:
        """The same recording with another function around it."""
        inputs, recording, shared = captured.inputs, captured.recording, captured.outputs_shared
        kinds, count = captured.kinds, captured.count
        if carried:
            kinds, count = tuple(policy.kinds), [0]
            self._stats.dropped(captured)
        again = self._making.finished(
            captured.key, kinds, policy, inputs, recording, count, shared=shared, loans=captured.loans
        )
        self._keep(again)
        return again

    def _explain_move(self, captured: Captured, policy: KeyPolicy, moved: Sequence[int]) -> None:
        cause = captured.cause_of_move(moved) if moved else "force_recapture"
        self._stats.add_cause("recaptures", cause)
        names = ", ".join(self.slots[i].name for i in moved[:4])
        log.info("%s key %s: %s (%s): captured again", self.name, captured.key, cause, names)
        self._note(f"key {captured.key}: {cause}: {names}")
        worth = self._keys.calls_worth(captured, moved)
        for note in policy.moved(moved, hasty=captured.count[0] < worth):
            self._note(f"key {captured.key}: {note}")
        if policy.visiting:
            self._making.watches.begin(captured.key, sorted(policy.visiting), worth)

    def _eagerly(self, args: list[Any], cause: str) -> tuple[Any, ...]:
        self._stats.add_cause("eager_calls", cause)
        self._note(f"ran without a capture: {cause}")
        return self._making.flat_outputs(self.runtime.run(self._body.function, args))

    def _capture(
        self, key: Key, kinds: tuple[Kind, ...], policy: KeyPolicy, args: list[Any]
    ) -> tuple[Any, ...]:
        started = time.perf_counter()
        copied, kinds = self._copies_outputs(policy), self._making.bound_to_lent(policy, args)
        first: tuple[Any, ...] | None = None
        if not self.runtime.abilities.runs_while_recording and self._runs_first(key, policy):
            first = self._making.flat_outputs(self._first_run(key, args))
        self._keys.drop(key)
        self._keys.make_room(key)
        self._keys.drop_abandoned()
        refuse_shortage(self.resources, self.runtime.limits(), len(self._captured), self.name, key)
        inputs = self._making.inputs(args, kinds)
        sample = None if first is None else (first, args)
        try:
            with showing(self._body.progress, f"{self.name} key {key}"):
                lends = policy.keeping.stage is Stage.SAVED
                recording = self._making.record(key, inputs, kinds, sample, copied=copied, lends=lends)
        except BaseException as error:
            self._stats.add("capture_failures")
            if not isinstance(error, IllegalDuringCapture) or not self._goes_on_in_pieces(error):
                raise
            return self._eagerly(args, "its capture failed") if first is None else first
        remember(recording)
        captured = self._making.finished(
            key, kinds, policy, inputs, recording, shared=copied and self.options.share_pool
        )
        self._keep(captured)
        self._keys.parameters[key] = parameters_of(captured, args)
        watch(self)
        self._siblings.captured(key, kinds, args)
        seconds = time.perf_counter() - started
        self._stats.add("captures")
        self._stats.add("capture_seconds", seconds)
        log.info(
            "%s key %s captured: %d tasks, %d bytes, %.1f ms",
            self.name, key, recording.tasks, recording.nbytes, 1e3 * seconds,
        )  # fmt: skip
        if first is not None:
            return handed_out(captured, first, computed_there=False)
        if recording.ran:
            return self._making.first_outputs(captured, inputs, args)
        outputs = captured.run(args)
        assert outputs is not None, "an address moved while the call that captured it was running"
        return outputs

    def split_by(self, splitter: Splitter) -> None:
        """Asks `splitter`, where the device refuses an operator in a capture, for what runs the graph in pieces."""
        self._splitter = splitter

    def _goes_on_in_pieces(self, error: IllegalDuringCapture) -> bool:
        """Has the graph cut where the device refused an operator in a capture, if it can be; gives whether it was."""
        node = self._body.node_at(error)
        if self._splitter is None or node is None:
            return False
        self._instead = self._splitter(node, error)
        if self._instead is not None:
            self._note(f"runs in pieces: {node.target} cannot be captured, {error.what}")
        return self._instead is not None

    def _copies_outputs(self, policy: KeyPolicy) -> bool:
        """Whether every caller of this capture gets copies, so that the memory of outputs may be shared."""
        if self.options.outputs == "kept":
            return policy.keeping.stage is Stage.COPIED and not policy.keeping.pinned
        return self.options.outputs == "clone"

    def _runs_first(self, key: Key, policy: KeyPolicy) -> bool:
        """Memory that callers get as it is, is made before the capture, from what a run gave back."""
        handed_out = self.options.outputs == "guarded" or policy.keeping.pinned
        wanted = self.options.warmup > 0 or handed_out
        return wanted or (self._kernels is not None and self._kernels.wants(key))

    def _first_run(self, key: Key, args: list[Any]) -> Any:
        """The run before a capture; static kernels are made for what it ran, and the capture sees them."""
        with span(span_name("first run", self.name, key)):
            if self._kernels is None:
                return self.runtime.run(self._body.function, args)
            return self._kernels.around(key, lambda: self.runtime.run(self._body.function, args))

    def pin(self, *args: Any) -> Pinned:
        """A handle that replays the key of `args` without any check; see `Pinned`.

        The graph runs on `args` only where the key is not captured yet, or for other addresses.  Other callers of
        this key get copies from now on, so that no replay of the handle writes what they keep.
        """
        with self._lock:
            key = self._siblings.key_of(self.key_of(args), args, self._captured)
            captured = self._fit_to_pin(key, self._captured.get(key))
            if captured is None or captured.moved(args):
                self._patience.is_asked_for(key)
                self.boxed(args)
                captured = self._captured.get(key)
            if captured is None and self._instead is not None:
                self._instead.pin(*args)
            if captured is None:
                raise InputRefused(
                    f"{self.name} did not capture the call to pin: {self._history.last}",
                    advice="call it until it is captured (air.cache.warmup), with inputs that share no memory",
                )
            return Pinned(self, captured, args, run_to_pin(captured, self.options, self._making.guarded))

    def _fit_to_pin(self, key: Key, captured: Captured | None) -> Captured | None:
        """The capture of a key that copies large inputs, its outputs nobody else's; None where there is none."""
        policy = self._keys.policy(key)
        unfit = self._making.watches.pinned(key, policy)
        if self.options.outputs == "kept":
            policy.keeping.pin()
            unfit = unfit or (captured is not None and (captured.outputs_shared or captured.is_held()))
        if captured is None:
            return None
        if unfit:
            self._keys.drop(key)
            return None
        return self._with_new_run(captured, policy)

    @property
    def source(self) -> str:
        """The function that is captured, as Python: one line per operator."""
        return self._body.source

    def keys(self) -> list[Key]:
        """The keys that are captured, the least recently used first."""
        return list(self._captured)

    def inputs_of(self, key: Key) -> tuple[Any, ...]:
        """What the capture of a key reads: buffers of copied inputs, the caller's memory otherwise."""
        return self._captured[key].inputs

    def recording_of(self, key: Key) -> Recording:
        """The recording behind a key."""
        return self._captured[key].recording

    def holds(self, captured: Captured) -> bool:
        """Whether this is the living capture of its key."""
        return self._captured.get(captured.key) is captured

    def drop_without_parameters(self) -> None:
        """Drops the captures whose parameters nobody has, where no call is under way."""
        if self._lock._is_owned() or not self._lock.acquire(blocking=False):
            return
        try:
            if not self._is_of_parent() and not self.runtime.is_recording():
                self._keys.drop_without_parameters()
        finally:
            self._lock.release()

    def reads_one_of(self, storages: set[int]) -> bool:
        """Whether a capture reads or writes one of these storages, as `air_graph.storage_of` names them."""
        inputs = (value for captured in self._captured.values() for value in captured.inputs)
        own = any(isinstance(value, Tensor) and storage_of(value) in storages for value in inputs)
        return own or (self._instead is not None and self._instead.reads_one_of(storages))

    def release(self) -> None:
        """Gives back everything the captures hold; the next call of each key captures again."""
        with self._lock:
            self.runtime.synchronize()
            self.invalidate()
            if self._instead is not None:
                self._instead.release()
            self._keys.trim()

    def invalidate(self) -> None:
        """Drops every capture; the next call of each key captures again."""
        with self._lock:
            self._keys.drop_all()
            if self._instead is not None:
                self._instead.invalidate()

    @property
    def nbytes(self) -> int:
        """Bytes the captured keys hold; the shared pool, and buffers that several keys have, are counted once."""
        return self._keys.nbytes

    @property
    def pieces(self) -> Mapping[str, Executor]:
        """Those that run instead, where the device refused an operator in a capture."""
        return super().pieces if self._instead is None else self._instead.pieces

    @property
    def eager(self) -> tuple[LeftOut, ...]:
        """What runs eagerly between them."""
        return () if self._instead is None else self._instead.eager

    def stats(self) -> dict[str, Any]:
        """Counts since the graph was compiled; those of the pieces that run instead stand under "split"."""
        counted = self._stats.as_dict(self._captured.values())
        told = {**counted, "pool_bytes": self.runtime.pool_nbytes(), "bytes": self.nbytes}
        return told if self._instead is None else {**told, "split": self._instead.stats()}

    def explain(self) -> dict[str, Any]:
        """Why each input is handled as it is, what was captured, and what happened since."""
        told = explained(self, self._making.updates, self._kernels, self._captured.values(), self._history)
        return told if self._instead is None else {**told, "split": self._instead.explain()}

    def handed_out(self, key: Key) -> str:
        """How the callers of a key get its outputs."""
        return self._keys.handed_out(key)

    def close(self) -> None:
        """Gives back everything the captures hold; a later call raises."""
        with self._lock:
            self.invalidate()
            if self._instead is not None:
                self._instead.close()
            self._keys.trim()
            self._closed = True
