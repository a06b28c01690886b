"""Errors carry the path, what was given, what is allowed, and the nearest name; they pickle and can be caught."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from air_config import (
    CompilerConfig,
    ConfigError,
    ConflictingOptions,
    Context,
    FrozenSettings,
    MissingPath,
    NotAGroup,
    NotSerializable,
    RefusedOption,
    UnknownOption,
    UnusablePath,
    WrongType,
    WrongValue,
    resolve,
)
from air_config.errors import AirError

STATIC_DIR = "experimental_config.aclgraph._aclnn_static_shape_kernel_build_dir"
DUMP_DIR = "dump_config.dump_path"


def unknown() -> None:
    CompilerConfig().debug.aclgraph.clone_inputs = True  # type: ignore[attr-defined]


def wrong_type() -> None:
    CompilerConfig().debug.run_eagerly = 1  # type: ignore[assignment]


def wrong_value() -> None:
    CompilerConfig().mode = "reduce-overheads"  # type: ignore[assignment]


def missing() -> None:
    CompilerConfig().set(DUMP_DIR, str(Path(__file__).parent / "nowhere"))


def unusable() -> None:
    CompilerConfig().set(STATIC_DIR, __file__)


def not_a_group() -> None:
    CompilerConfig().debug = True  # type: ignore[assignment]


def conflicting() -> None:
    CompilerConfig.from_options({"clone_input": True, "debug.aclgraph.clone_input": False})


def not_serializable() -> None:
    config = CompilerConfig()
    config.post_grad_custom_pre_pass = lambda *arguments: None
    config.to_json()


def frozen() -> None:
    resolve().debug.run_eagerly = True


def refused() -> None:
    config = CompilerConfig.from_options({"mode": "reduce-overhead", "static_kernel_compile": True})
    resolve(config, Context(device="cpu")).check()


RAISERS: dict[type[ConfigError], tuple[Callable[[], None], tuple[type[Exception], ...]]] = {
    UnknownOption: (unknown, (AttributeError, ValueError)),
    WrongType: (wrong_type, (TypeError, ValueError)),
    WrongValue: (wrong_value, (ValueError,)),
    MissingPath: (missing, (FileNotFoundError, ValueError)),
    UnusablePath: (unusable, (PermissionError, ValueError)),
    NotAGroup: (not_a_group, (TypeError, ValueError)),
    ConflictingOptions: (conflicting, (ValueError,)),
    NotSerializable: (not_serializable, (TypeError,)),
    FrozenSettings: (frozen, (AttributeError,)),
    RefusedOption: (refused, (RuntimeError,)),
}


def test_every_error_class_is_raised_by_some_use() -> None:
    from air_config import errors

    public = {getattr(errors, name) for name in errors.__all__} - {AirError, ConfigError}
    assert public == set(RAISERS)


@pytest.mark.parametrize("kind", RAISERS)
def test_an_error_is_a_config_error_and_what_python_raises_for_the_same_mistake(
    kind: type[ConfigError],
) -> None:
    raiser, builtin = RAISERS[kind]
    with pytest.raises(kind) as caught:
        raiser()
    assert isinstance(caught.value, (ConfigError, *builtin))
    assert all(isinstance(caught.value, each) for each in builtin)


@pytest.mark.parametrize("kind", RAISERS)
def test_an_error_pickles_with_its_message_and_fields(kind: type[ConfigError]) -> None:
    with pytest.raises(kind) as caught:
        RAISERS[kind][0]()
    again: Any = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is kind
    assert str(again) == str(caught.value)
    assert getattr(again, "path", None) == getattr(caught.value, "path", None)


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        (UnknownOption, ("'debug.aclgraph.clone_inputs'", "did you mean 'debug.aclgraph.clone_input'?")),
        (WrongType, ("'debug.run_eagerly'", "given    1 (int)", "allowed  True or False")),
        (
            WrongValue,
            ("'mode'", "'reduce-overheads'", '"max-autotune" or "reduce-overhead" or "npugraph_ex"'),
        ),
        (MissingPath, (DUMP_DIR, "nowhere", "an existing directory", "create it first")),
        (UnusablePath, (STATIC_DIR, "is not a directory")),
        (NotAGroup, ("'debug'", "run_eagerly", "aclgraph")),
        (ConflictingOptions, ("'clone_input'", "'debug.aclgraph.clone_input'", "keep one")),
        (NotSerializable, ("post_grad_custom_pre_pass", "lambda", "top level")),
        (FrozenSettings, ("'debug.run_eagerly'", "resolve it again")),
        (RefusedOption, ("1 option(s) refused", "static kernels", "static-kernel-needs-npu")),
    ],
)
def test_the_message_stands_alone(kind: type[ConfigError], parts: tuple[str, ...]) -> None:
    with pytest.raises(kind) as caught:
        RAISERS[kind][0]()
    for part in parts:
        assert part in str(caught.value)


def test_a_long_value_is_shortened_in_the_message() -> None:
    with pytest.raises(WrongValue) as caught:
        CompilerConfig().set("mode", "x" * 5000)
    assert len(str(caught.value)) < 500
    assert caught.value.given == "x" * 5000


@dataclass(eq=False)
class Spilt(AirError, RuntimeError):
    thing: str
    places: tuple[str, ...]
    where: str = ""
    litres: int | None = None
    what = "{thing!r} was spilt on {places}"
    advice = "wipe the {thing} up"

    def details(self) -> Iterable[tuple[str, object]]:
        yield "how much", self.litres
        yield "colour", ""


def test_an_error_says_what_where_and_what_to_do_and_leaves_out_what_it_does_not_know() -> None:
    error = Spilt("milk", ("floor", "wall"), where="kitchen.py:3", litres=0)
    assert str(error) == (
        "'milk' was spilt on floor, wall\n  at        kitchen.py:3\n  how much  0\n  advice    wipe the milk up"
    )
    assert str(Spilt("a {brace}", ())) == "'a {brace}' was spilt on \n  advice  wipe the a {brace} up"
    assert (error.what, error.args) == ("'milk' was spilt on floor, wall", (str(error),))


def test_an_error_without_facts_takes_its_parts_as_they_are() -> None:
    error = AirError("it {broke}", where="here", advice="mend {it}")
    assert str(error) == "it {broke}\n  at      here\n  advice  mend {it}"
    assert str(AirError("it broke")) == "it broke"


def test_an_error_with_templates_comes_out_of_a_pickle_as_it_was() -> None:
    error = Spilt("milk", ("floor",), litres=2)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is Spilt
    assert (str(again), again.args, again.litres) == (str(error), error.args, 2)
