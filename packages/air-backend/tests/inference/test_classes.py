"""Of classes with one name, a file of `cache_compile` is for the one that was traced."""

from __future__ import annotations

import abc
import enum
import functools
import logging
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from air_backend.inference import cache_compile
from air_backend.inference._classes import changed, classes_of

Make = Callable[[int], Callable[[Tensor], Tensor]]


def by_attribute(number: int) -> Any:
    class Model(nn.Module):
        scale = number

        def forward(self, x: Tensor) -> Tensor:
            return x * self.scale

    return Model().forward


def by_static_method(number: int) -> Any:
    class Model(nn.Module):
        @staticmethod
        def scaled(x: Tensor) -> Tensor:
            return x * number

        def forward(self, x: Tensor) -> Tensor:
            return self.scaled(x)

    return Model().forward


def by_property(number: int) -> Any:
    class Model(nn.Module):
        @property
        def scale(self) -> int:
            return number

        def forward(self, x: Tensor) -> Tensor:
            return x * self.scale

    return Model().forward


def holding(part: nn.Module) -> Any:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = part

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.part(x)
            return result

    return Model().forward


def by_part(number: int) -> Any:
    class Part(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * number

    return holding(Part())


def by_base(number: int) -> Any:
    class Base(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * number

    class Model(Base):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x)

    return Model().forward


def by_decorator(number: int) -> Any:
    def scaled(method: Any) -> Any:
        @functools.wraps(method)
        def both(self: Any, x: Tensor) -> Any:
            return method(self, x) * number

        return both

    class Part(nn.Module):
        @scaled
        def forward(self, x: Tensor) -> Tensor:
            return x + 1

    return holding(Part())


def by_member(number: int) -> Any:
    class Kind(enum.Enum):
        ONE = number

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kind = Kind.ONE

        def forward(self, x: Tensor) -> Tensor:
            return x * self.kind.value

    return Model().forward


class Calling(nn.Module):
    def step(self, x: Tensor) -> Tensor:
        result: Tensor = self.body(x)  # type: ignore[operator]
        return result


def by_code(number: int) -> Any:
    if number == 2:

        class Model(Calling):
            def body(self, x: Tensor) -> Tensor:
                return x + 1

    else:

        class Model(Calling):  # type: ignore[no-redef]
            def body(self, x: Tensor) -> Tensor:
                return x * 5

    return Model().step


def by_lambda(number: int) -> Any:
    return (lambda x: x + 1) if number == 2 else (lambda x: x * 5)


def by_function(number: int) -> Any:
    if number == 2:

        def program(x: Tensor) -> Tensor:
            return x + 1
    else:

        def program(x: Tensor) -> Tensor:
            return x * 5

    return program


@pytest.mark.parametrize(
    "make",
    [
        by_attribute, by_static_method, by_property, by_part, by_base, by_decorator, by_member, by_code, by_lambda,
        by_function,
    ],
    ids=lambda make: make.__name__,
)  # fmt: skip
def test_W28_what_has_the_name_of_what_was_traced_and_is_something_else_is_traced_anew(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    x = torch.arange(4.0)
    for number in (2, 3):
        torch._dynamo.reset()
        function = make(number)
        with caplog.at_level(logging.WARNING):
            torch.testing.assert_close(
                cache_compile(function, cache_dir=tmp_path, dynamic=False)(x), function(x)
            )
    assert "is not used" in caplog.text
    caplog.clear()
    torch._dynamo.reset()
    function = make(3)
    cached = cache_compile(function, cache_dir=tmp_path, dynamic=False)
    torch.testing.assert_close(cached(x), function(x))
    assert len(list(cached.folder.iterdir())) == 2, "a process that makes the same class reads the file"


def looked_at(value: object) -> Any:
    return types.SimpleNamespace(value=value)


class Counted:
    """Of which Python itself notes where it stands."""

    names = ("a", 1.5, frozenset({True}))
    table = {"a": 1}


def test_a_class_is_compared_by_what_does_not_differ_from_process_to_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    classes = classes_of([looked_at(Counted()), looked_at(Counted), looked_at(torch.ones(1))])
    named = [name.partition(":")[2] for name in classes]
    assert named == ["Counted", "Tensor", "Counted()"]
    monkeypatch.setattr(Counted, "__init__", lambda self: None)
    assert changed(classes) == f"{__name__}:Counted()", "the program may make another one"
    monkeypatch.undo()
    assert changed(classes) is None
    monkeypatch.setattr(Counted, "__doc__", "Another text.")
    monkeypatch.setattr(Counted, "table", {"b": 2})
    assert changed(classes) is None, "Dynamo has conditions on elements"
    monkeypatch.setattr(Counted, "names", ("a", 2.5, frozenset({True})))
    assert changed(classes) == f"{__name__}:Counted"
    assert changed({f"{__name__}:Gone": "x"}) == f"{__name__}:Gone"
    assert changed({"no_such_module:Gone": "x"}) == "no_such_module:Gone"


class Abstract(abc.ABC):
    @abc.abstractmethod
    def step(self) -> None: ...


class Registered:
    pass


def test_W28_what_is_registered_with_an_abstract_class_is_compared() -> None:
    classes = classes_of([looked_at(Abstract)])
    assert changed(classes) is None
    Abstract.register(Registered)
    assert changed(classes) == f"{__name__}:Abstract()"


class Renamed:
    scale = 2


class Wrapped(Renamed):
    def scaled(self) -> int:
        return self.scale


Wrapped.__qualname__ = Wrapped.__name__ = "Renamed"
Renamed = Wrapped  # type: ignore[misc]


def in_c() -> Any:
    """A value whose type is found under no name, as that of functions of numpy is."""
    return np.prod


def test_W28_a_class_with_the_name_of_its_base_and_a_type_without_a_name_are_the_same_in_each_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = (Renamed(), Renamed, in_c(), torch.nn.attention.SDPBackend.MATH)
    classes = classes_of([looked_at(value) for value in values])
    assert changed(classes) is None
    assert "Renamed" in " ".join(classes)
    monkeypatch.setattr(Wrapped.__mro__[1], "scale", 3)
    assert changed(classes) == f"{__name__}:Renamed", "the base is compared as well"
