"""What a pinned call replays: a capture whose outputs lie in memory that is nobody else's, without any check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from air_aclgraph._captured import Captured, Run
from air_aclgraph._key import Key
from air_aclgraph._making import Making
from air_aclgraph._options import Options
from air_aclgraph._outputs import finisher, fixed_outputs
from air_aclgraph._patience import Patience
from air_aclgraph._policy import KeyPolicy
from air_aclgraph._replayer import Replayer
from air_aclgraph._siblings import Siblings
from air_aclgraph._stats import History
from air_aclgraph.errors import InputRefused


class Pinning(Replayer):
    """A replayer whose keys can be pinned."""

    __slots__ = ()

    name: str
    options: Options
    _history: History
    _making: Making
    _patience: Patience
    _siblings: Siblings

    def _policy(self, key: Key) -> KeyPolicy:
        """How the inputs and outputs of a key are handled."""
        raise NotImplementedError

    def _drop(self, key: Key) -> None:
        """Gives back what the capture of a key holds."""
        raise NotImplementedError

    def _with_new_run(self, captured: Captured, policy: KeyPolicy) -> Captured:
        """The same recording with another function around it."""
        raise NotImplementedError

    def _to_pin(self, args: tuple[Any, ...]) -> tuple[Captured, Run]:
        """The capture of the key of `args`, made if need be, and what replays it for a handle."""
        key = self._siblings.key_of(self._key(args), args, self._captured)
        captured = self._with_memory_to_pin(key, self._captured.get(key))
        if captured is None or captured.moved(args):
            self._patience.is_asked_for(key)
            self.boxed(args)
            captured = self._captured.get(key)
        if captured is None:
            raise InputRefused(
                f"{self.name} did not capture the call to pin: {self._history.last}",
                advice="call it until it is captured (air.cache.warmup), with inputs that share no memory",
            )
        changed: dict[str, Any] = {"indices": [], "check_overlap": False, "watch": None}
        if self.options.outputs == "kept":
            changed["finish"] = finisher(captured.outputs, "view", self._making.guarded)
            changed["fixed"] = fixed_outputs(captured.outputs)
        return captured, replace(captured, **changed).run

    def _with_memory_to_pin(self, key: Key, captured: Captured | None) -> Captured | None:
        """The capture of a key that copies large inputs, its outputs nobody else's; None where there is none."""
        policy = self._policy(key)
        unfit = self._making.watches.pinned(key, policy)
        if self.options.outputs == "kept":
            policy.keeping.pin()
            unfit = unfit or (captured is not None and (captured.outputs_shared or captured.is_held()))
        if captured is None:
            return None
        if unfit:
            self._drop(key)
            return None
        return self._with_new_run(captured, policy)
