"""The keys of a graph: which are captured, what is known of the others, and which make room.

A call that is a replay asks `Replayer` alone; all here happens off that path.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from air_aclgraph._abandoned import is_abandoned
from air_aclgraph._captured import Captured
from air_aclgraph._kept import Stage
from air_aclgraph._key import Key
from air_aclgraph._lent import are_put_elsewhere
from air_aclgraph._making import Making
from air_aclgraph._moved import are_free, calls_worth_a_capture
from air_aclgraph._patience import Patience
from air_aclgraph._placed import Placed
from air_aclgraph._policy import KeyPolicy
from air_aclgraph._siblings import Siblings, shapes_of
from air_aclgraph._slots import Kind
from air_aclgraph._stats import Stats

#: Of so many keys it is known how their inputs and outputs are handled; of those that are captured always.
POLICIES_LIMIT: Final = 4096

#: A capture of fewer replays whose parameters nobody has was made for parameters of one call.
FEW_REPLAYS: Final = 2


@dataclass
class KeyStore:
    """The captures of one executable, the least recently used first, with the policy of each key."""

    captured: OrderedDict[Key, Captured]
    forget: weakref.WeakMethod[Callable[[Key], Captured | None]]
    """Takes the capture of a key out of `captured`, and out of the path of a call; the executable owns this store."""
    making: Making
    patience: Patience
    siblings: Siblings
    placed: Placed
    stats: Stats
    policies: OrderedDict[Key, KeyPolicy] = field(default_factory=OrderedDict)
    first: Key | None = None
    """The shapes of the first key of a forward half."""
    parameters: dict[Key, list[int]] = field(default_factory=dict)
    """Of each capture, the inputs that are parameters of its caller."""

    def policy(self, key: Key) -> KeyPolicy:
        """How the inputs and outputs of a key are handled."""
        policy = self.policies.get(key)
        if policy is None:
            policy = KeyPolicy.of(self.making.slots)
            if self.making.saved is not None:  # each shape would have memory of its own to lend
                self.first = shapes_of(key) if self.first is None else self.first
                lends = self.making.lends and shapes_of(key) == self.first and not are_put_elsewhere()
                policy.keeping.stage = Stage.SAVED if lends else Stage.COPIED
            self.policies[key] = policy
            self._forget_policies(key)
        else:
            self.policies.move_to_end(key)
        for index in self.placed.stays(key):
            policy.kinds[index] = Kind.STATIC
        return policy

    def _forget_policies(self, but: Key) -> None:
        """Forgets what was asked for longest ago and has no capture: a capture goes by its policy."""
        spare = len(self.policies) - POLICIES_LIMIT
        if spare > 0:
            idle = (key for key in self.policies if key != but and key not in self.captured)
            for key in [key for key, _ in zip(idle, range(spare), strict=False)]:
                del self.policies[key]
                self.making.watches.forget(key)
                self.siblings.forget_idle(key, self.captured)

    def drop(self, key: Key) -> None:
        """Gives back what the capture of a key holds."""
        forget = self.forget()
        old = self.captured.pop(key, None) if forget is None else forget(key)
        if old is not None:
            old.recording.lent = frozenset()
            self.stats.dropped(old)
            old.recording.release()
        self.parameters.pop(key, None)
        self.placed.dropped(key)

    def drop_without_parameters(self) -> None:
        """Gives back what the captures hold whose parameters nobody has any more."""
        for key, captured in list(self.captured.items()):
            places = self.parameters.get(key, [])
            if is_abandoned(captured, places):
                self._note_abandoned(captured, places)
                self.drop(key)
                if not self.captured:
                    self.trim()

    def _note_abandoned(self, captured: Captured, places: Sequence[int]) -> None:
        """Parameters that are made anew every few calls are inputs that move; those of a model that served are not."""
        key, note, replays = captured.key, self.making.history.note, captured.count[0]
        note(f"key {key}: dropped, nobody has its parameters")
        if replays < self.calls_worth(captured, places):
            for text in self.policy(key).moved(places, hasty=replays < FEW_REPLAYS):
                note(f"key {key}: {text}")

    def calls_worth(self, captured: Captured, indices: Iterable[int]) -> int:
        """After how many calls the copies of these inputs have cost as much as a capture."""
        seconds = self.stats["capture_seconds"] / max(1, self.stats["captures"])
        return calls_worth_a_capture(seconds, [captured.inputs[i] for i in indices], self.making.runtime)

    def trim(self) -> None:
        """Gives back the memory that only captures use, where there are none."""
        self.making.buffers.clear()
        self.making.runtime.trim()

    def drop_all(self) -> None:
        """Drops every capture; the next call of each key captures again."""
        for key in list(self.captured):
            self.drop(key)

    def make_room(self, key: Key) -> None:
        """Drops the least recently used keys until another one fits."""
        while self.captured and self.is_full():
            oldest = next(iter(self.captured))
            self.patience.dropped(oldest, self.captured[oldest].count[0])
            self.making.watches.dropped(oldest, self.policy(oldest))
            self.drop(oldest)
            if not self.stats["evictions"]:
                self.patience.tell_dropped(oldest, key, self.making.options.limit_bytes)
            self.stats.add("evictions")

    def drop_abandoned(self) -> None:
        """Gives back the memory of large inputs that nobody has but a capture: its next call has to move them."""
        for key, captured in list(self.captured.items()):
            policy = self.policy(key)
            gone = [i for i in sorted(policy.large) if are_free([captured.inputs[i]], collect=False)]
            if gone:
                note = self.making.history.note
                note(f"key {key}: dropped, its callers have let go of input {gone}")
                for text in policy.moved(gone):
                    note(f"key {key}: {text}")
                self.drop(key)

    def full(self) -> OrderedDict[Key, Captured] | None:
        """The captures, where another key has room only in the place of one."""
        return self.captured if self.is_full() else None

    def is_full(self) -> bool:
        """Whether another key has room only in the place of one."""
        options = self.making.options
        limit = options.limit_bytes
        return len(self.captured) >= options.limit or (limit is not None and self.nbytes >= limit)

    @property
    def nbytes(self) -> int:
        """Bytes the captured keys hold; the shared pool, and buffers that several keys have, are counted once."""
        alive = self.captured.values()
        buffers = self.making.buffers.held()
        for captured in alive:
            buffers.update(captured.buffers())
        own = sum(c.nbytes for c in alive) + sum(buffers.values()) + self.placed.nbytes
        return self.making.runtime.pool_nbytes() + own

    def handed_out(self, key: Key) -> str:
        """How the callers of a key get its outputs."""
        policy, mode = self.policies.get(key), self.making.options.outputs
        return mode if policy is None or mode != "kept" else policy.keeping.stage.value
