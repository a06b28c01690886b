"""Callables are written as "package.module:name" when that imports them, and refused otherwise."""

from __future__ import annotations

import functools
import os.path
from collections.abc import AsyncIterator, Iterator

import pytest

from air_config import CompilerConfig, NotSerializable, WrongType, WrongValue
from air_config._callable_kinds import function, import_callable, name_of_callable


def test_a_function_of_a_module_goes_to_text_and_back() -> None:
    assert name_of_callable(os.path.join) == f"{os.path.join.__module__}:join"
    assert import_callable(name_of_callable(os.path.join)) is os.path.join


def test_a_nested_name_is_followed() -> None:
    assert import_callable("air_config:CompilerConfig.show") is CompilerConfig.show


@pytest.mark.parametrize(
    "value", [lambda *given: None, functools.partial(print), type("Local", (), {"__call__": print})()]
)
def test_what_cannot_be_imported_by_name_has_no_text(value: object) -> None:
    config = CompilerConfig()
    config.set("post_grad_custom_pre_pass", value)
    with pytest.raises(NotSerializable, match="post_grad_custom_pre_pass"):
        config.to_json()


def test_a_name_that_imports_something_else_is_refused() -> None:
    impostor = functools.wraps(os.path.join)(lambda *parts: "")
    with pytest.raises(ValueError, match="imports a different object"):
        name_of_callable(impostor)


@pytest.mark.parametrize("text", ["join", ":join", "os.path:", "no.such.module:f", "os.path:no_such"])
def test_text_that_names_nothing_is_a_wrong_value(text: str) -> None:
    with pytest.raises(WrongValue):
        function().take_text("p", text, "AIR_P")


def test_what_cannot_be_called_has_the_wrong_type() -> None:
    with pytest.raises(WrongType):
        function().take("p", 3)


def test_text_may_name_something_that_cannot_be_called() -> None:
    with pytest.raises(WrongType):
        function().take_text("p", "os:sep", "AIR_P")


def test_a_pass_that_could_never_be_called_is_refused_where_it_is_set() -> None:
    def only_the_graph(gm: object) -> None: ...

    config = CompilerConfig()
    with pytest.raises(WrongValue) as refused:
        config.post_grad_custom_post_pass = only_the_graph
    line = only_the_graph.__code__.co_firstlineno
    for word in (
        f"test_callable_kinds.py:{line}",
        "takes (gm): too many",
        "a function of (gm, example_inputs, config)",
    ):
        assert word in str(refused.value)
    config.post_grad_custom_post_pass = lambda gm, inputs, config, more=1: None
    config.debug.data_dump.filter = only_the_graph


def generator(gm: object, example_inputs: object, config: object) -> Iterator[None]:
    yield


async def coroutine(gm: object, example_inputs: object, config: object) -> None:
    pass


async def asynchronous_generator(gm: object, example_inputs: object, config: object) -> AsyncIterator[None]:
    yield


class CalledAsOne:
    def __call__(self, gm: object, example_inputs: object, config: object) -> Iterator[None]:
        yield


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (generator, "a generator"),
        (coroutine, r"a coroutine \(async def\)"),
        (asynchronous_generator, "an asynchronous generator"),
        (functools.partial(generator), "a generator"),
        (CalledAsOne(), "a generator"),
    ],
)
def test_a_pass_whose_body_a_call_does_not_run_is_refused_where_it_is_set(given: object, what: str) -> None:
    with pytest.raises(WrongValue, match=f"is {what}: to call it does not run it"):
        CompilerConfig().set("post_grad_custom_pre_pass", given)


def test_a_filter_that_does_not_take_a_node_is_refused_where_it_is_set() -> None:
    config = CompilerConfig()
    with pytest.raises(WrongValue, match=r"(?s)debug\.data_dump\.filter.*a function of \(node\)"):
        config.debug.data_dump.filter = lambda node, value: node
    config.debug.data_dump.filter = lambda node: node
