"""The extension's replay is called without the Python method above it where that only logs."""

from __future__ import annotations

import logging

from air_aclgraph.device._runtime import replay_of

log = logging.getLogger(__name__)


class Extension:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def replay(self) -> None:
        self.calls.append("extension")


class Logs(Extension):
    def replay(self) -> None:
        log.debug("replay %s", id(self))
        super().replay()


class DoesMore(Extension):
    def replay(self) -> None:
        self.calls.append("more")
        super().replay()


class Inherits(Extension):
    pass


def test_a_method_that_only_logs_is_left_out() -> None:
    graph = Logs()
    replay = replay_of(graph)
    assert replay.__func__ is Extension.replay  # type: ignore[attr-defined]  # a bound method
    replay()
    assert graph.calls == ["extension"]


def test_a_method_that_does_more_stays() -> None:
    graph = DoesMore()
    replay_of(graph)()
    assert graph.calls == ["more", "extension"]


def test_an_inherited_method_and_one_of_the_instance_stay() -> None:
    graph = Inherits()
    replay_of(graph)()
    assert graph.calls == ["extension"]
    accelerator = Inherits()
    accelerator.replay = lambda: accelerator.calls.append("own")  # type: ignore[method-assign]  # as torch.accelerator's
    replay_of(accelerator)()
    assert accelerator.calls == ["own"]
