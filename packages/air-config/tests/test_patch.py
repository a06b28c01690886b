"""`patch`: what it takes, what it may be put on, and that a block takes away its own values alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any

import pytest

from air_config import CompilerConfig, ConfigError, Context, WrongType, patch, resolve


def limit() -> int:
    config = CompilerConfig.preset("reduce-overhead")
    return resolve(config, Context(env={})).debug.aclgraph.static_capture_size_limit


def test_a_patch_ends_in_the_thread_that_leaves_it() -> None:
    shared, both, left, seen = patch(capture_limit=1), threading.Barrier(2), threading.Event(), []

    def first() -> None:
        with shared:
            both.wait(10)
        seen.append(limit())
        left.set()

    def second() -> None:
        with shared:
            both.wait(10)
            left.wait(10)
            seen.append(limit())
        seen.append(limit())

    threads = [threading.Thread(target=each) for each in (second, first)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [64, 1, 64]


def test_patches_of_two_generators_end_in_any_order() -> None:
    def generator(value: int) -> Generator[int, None, None]:
        with patch(capture_limit=value):
            yield limit()

    one, other = generator(1), generator(2)
    assert (next(one), next(other)) == (1, 2)
    one.close()
    assert limit() == 2
    other.close()
    assert limit() == 64


def test_a_patch_on_a_coroutine_lasts_while_it_is_awaited() -> None:
    @patch(capture_limit=5)
    async def inside() -> int:
        await asyncio.sleep(0)
        return limit()

    async def both() -> tuple[int, int]:
        return await inside(), limit()

    assert asyncio.run(both()) == (5, 64)


class Server:
    async def __call__(self) -> int:
        await asyncio.sleep(0)
        return limit()


def test_a_patch_on_what_gives_a_coroutine_lasts_while_that_is_awaited() -> None:
    """No more than its call says that an object, or a wrapper of a coroutine function, is asynchronous."""
    server = Server()

    async def both(made: Callable[[], Any]) -> tuple[int, int]:
        return await patch(capture_limit=5)(made)(), limit()

    assert asyncio.run(both(server)) == asyncio.run(both(lambda: server())) == (5, 64)


def generator() -> Generator[int, None, None]:
    yield limit()


async def asynchronous() -> AsyncIterator[int]:
    yield limit()


class Holder:
    pass


@pytest.mark.parametrize("made", [generator, asynchronous, Holder])
def test_a_patch_on_what_runs_later_is_refused_with_its_name(made: Callable[..., Any]) -> None:
    with pytest.raises(
        ConfigError, match=rf"(?s)cannot be put on an? .*{made.__qualname__}.*with air_config.patch"
    ):
        patch(capture_limit=5)(made)


def test_a_patch_takes_a_configuration() -> None:
    given = CompilerConfig.from_options({"capture_limit": 3}, mode="reduce-overhead")
    with patch(given):
        settings = resolve(CompilerConfig(), Context(env={}))
    assert (settings.mode, settings.debug.aclgraph.static_capture_size_limit) == ("reduce-overhead", 3)


@pytest.mark.parametrize(
    "given", [5, "mode", [("mode", "reduce-overhead")], resolve(context=Context(env={}))]
)
def test_a_patch_of_something_else_is_a_wrong_type(given: Any) -> None:
    with pytest.raises(WrongType, match="a dict of option names and values, or a CompilerConfig"):
        patch(given)


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="'capture_limit' twice"):
        patch({"capture_limit": 1}, capture_limit=2)
