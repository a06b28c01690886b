"""Which converter turns which torch operator into Ascend IR.

A converter is a function whose parameters, after the context, are those of the operator's schema; the first line of
its docstring is the schema. Both are checked when it is registered, so a converter cannot drift from its operator. An
operator that is not loaded yet is named by its qualified name and checked when it is first used.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch

from air_geir.converters._load import load_families
from air_geir.converters._sample import Sample
from air_geir.errors import ConverterError

Target: TypeAlias = "torch._ops.OpOverload | torch._ops.HigherOrderOperator | str"
Function: TypeAlias = Callable[..., Any]


USERS: Final = "user"
"""The family of converters that users register in TorchAir's style."""


@dataclass(frozen=True)
class Converter:
    """A registered converter."""

    target: str
    """Qualified name of the operator: `aten.add.Tensor`."""
    function: Function
    samples: tuple[Sample, ...] = ()
    family: str = ""
    takes_context: bool = True
    """False for converters in TorchAir's style: no context, an optional `meta_outputs`."""

    @property
    def is_own(self) -> bool:
        """Whether it is part of this package."""
        package = str(getattr(self.function, "__module__", "")).partition(".")[0]
        return self.family != USERS and package == __package__.partition(".")[0]


log = logging.getLogger(__name__)
_CONVERTERS: dict[str, Converter] = {}
_OUT_OF_PLACE: dict[str, Converter] = {}
"""AIR's own converters that a user's has replaced."""


def name_of(target: object) -> str:
    """The key of a call target: `aten.add.Tensor`, `higher_order.cond`, `operator.add`."""
    if isinstance(target, str):
        return target.replace("::", ".")
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order.{target.name()}"
    module = getattr(target, "__module__", "").lstrip("_")
    return f"{module}.{getattr(target, '__name__', repr(target))}"


def converts(*targets: Target, samples: Sequence[Sample] = ()) -> Callable[[Function], Function]:
    """Registers the function below as the converter of these overloads.

    Args:
        targets: overloads (`aten.add.Tensor`), or qualified names (`"npu.npu_rms_norm.default"`), which also work
            when the library that defines the operator is not loaded.
        samples: calls that the converter's own test makes, each compared with eager torch.
    """

    def register(function: Function) -> Function:
        for target in targets:
            add(target, function, samples=samples)
        return function

    return register


def add(
    target: Target,
    function: Function,
    *,
    samples: Sequence[Sample] = (),
    family: str | None = None,
    takes_context: bool = True,
) -> Converter | None:
    """Registers one converter; a second one for the same operator is refused.

    The converter of a user takes the place of one of AIR's own, as in TorchAir.
    """
    name = name_of(target)
    if family == USERS:
        load_families()
    known = _CONVERTERS.get(name)
    if known is not None and family == USERS and known.family != USERS:
        log.warning("%s: the converter at %s takes the place of AIR's own", name, where_is(function))
        _OUT_OF_PLACE[name] = known
    elif known is not None:
        raise ConverterError(
            f"{name} already has a converter: {where_is(known.function)}",
            where=where_is(function),
            advice="call unregister() first if yours is meant to take its place",
        )
    if takes_context and not _fits(name, function):
        return None
    kept = Converter(name, function, tuple(samples), family or _family_of(function), takes_context)
    _CONVERTERS[name] = kept
    return kept


def unregister(target: Target) -> None:
    """Forgets a converter, so that another can be registered; AIR's own comes back where a user's was in its place."""
    name = name_of(target)
    if _CONVERTERS.pop(name, None) is None:
        raise ConverterError(
            f"{name} has no converter",
            advice="give the overload that was registered, such as torch.ops.mylib.scale.default",
        )
    if name in _OUT_OF_PLACE:
        _CONVERTERS[name] = _OUT_OF_PLACE.pop(name)


def find(target: object) -> Converter | None:
    """The converter of a call target, or None."""
    load_families()
    return _CONVERTERS.get(name_of(target))


def all_converters() -> Iterator[Converter]:
    """Every converter, in the order of registration."""
    load_families()
    return iter(list(_CONVERTERS.values()))


def resolve(name: str) -> torch._ops.OpOverload | None:
    """The overload of a qualified name, None while nothing defines it."""
    namespace, _, rest = name.partition(".")
    packet, _, overload = rest.rpartition(".")
    found = torch._C._jit_get_schemas_for_operator(f"{namespace}::{packet}")
    if not any((s.overload_name or "default") == overload for s in found):
        return None
    op = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
    return op if isinstance(op, torch._ops.OpOverload) else None


def schema_line(op: torch._ops.OpOverload) -> str:
    """The schema as a converter's docstring states it: without the namespace."""
    return str(op._schema).partition("::")[2]


def check(name: str, function: Function) -> None:
    """Compares a converter with the schema of its operator, if the operator is loaded."""
    op = resolve(name)
    if op is None:
        return
    expected = [a.name for a in op._schema.arguments]
    given = getattr(function, "arguments", None)
    if given is None:
        given = [p.name for p in inspect.signature(function).parameters.values()][1:]
    if _spelled(given) != _spelled(expected):
        raise ConverterError(
            f"the converter of {name} takes ({', '.join(given)})",
            where=where_is(function),
            advice=f"take the context and then the schema's arguments: {', '.join(expected)}",
        )


def _fits(name: str, function: Function) -> bool:
    """False for a converter of this package whose operator has another schema in the torch_npu that is installed."""
    try:
        check(name, function)
    except ConverterError as drift:
        if not function.__module__.startswith("air_geir.converters.npu"):
            raise
        log.warning("%s is left out: %s", name, drift)
        return False
    return True


def _spelled(names: Sequence[str]) -> list[str]:
    """Names without the underscore that keeps a keyword legal; a first `input` is a `self`, as torch's bindings say."""
    plain = [n.rstrip("_") for n in names]
    return ["self", *plain[1:]] if plain[:1] == ["input"] else plain


def where_is(function: Function) -> str:
    """The file of a function and its first line."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)


def _family_of(function: Function) -> str:
    return function.__module__.rpartition(".")[2]
