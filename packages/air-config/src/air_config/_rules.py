"""The form of a rule: when it applies, which options it affects, what happens to them, and its source.

A rule is a frozen row. Conditions are small rows too, with a text, so that the reference page can print what
the code evaluates. Rules run in the order of the table; an option that one rule has put out of action is not
reported again by a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from air_config._context import Context
from air_config._layers import Layered
from air_config._notice import Effect, Notice
from air_config._tree import OPTIONS

__all__ = [
    "INERT",
    "KEEP",
    "Facts",
    "Rule",
    "When",
    "apply",
    "both",
    "either",
    "fact",
    "option_is",
    "option_off",
    "option_on",
]


@attrs.frozen
class Marker:
    """A value a rule can name instead of a literal one."""

    text: str


INERT: Final = Marker("its value of no effect")
KEEP: Final = Marker("the value as given")


@attrs.frozen
class Facts:
    """What a condition may look at."""

    values: Mapping[str, Any]
    context: Context


@attrs.frozen
class When:
    """A condition and its text."""

    text: str
    holds: Callable[[Facts], bool]


def option_is(path: str, *wanted: object) -> When:
    """The option has one of these values."""
    listed = " or ".join(repr(value) for value in wanted)
    return When(f"{path} is {listed}", lambda facts: facts.values[path] in wanted)


def option_on(path: str) -> When:
    """The option has a value other than None, False and empty."""
    return When(f"{path} is set", lambda facts: bool(facts.values[path]))


def option_off(path: str) -> When:
    """The option is None, False or empty."""
    return When(f"{path} is off", lambda facts: not facts.values[path])


def fact(text: str, holds: Callable[[Context], bool]) -> When:
    """Something about the context."""
    return When(text, lambda facts: holds(facts.context))


def both(*conditions: When) -> When:
    """All of them."""
    text = " and ".join(condition.text for condition in conditions)
    return When(text, lambda facts: all(condition.holds(facts) for condition in conditions))


def either(*conditions: When) -> When:
    """At least one of them."""
    text = "(" + " or ".join(condition.text for condition in conditions) + ")"
    return When(text, lambda facts: any(condition.holds(facts) for condition in conditions))


@attrs.frozen
class Rule:
    """One constraint between options, modes and the place they are used in."""

    name: str
    when: When
    options: tuple[str, ...]
    effect: Effect
    reason: str
    source: str
    to: Any = INERT
    """The value used instead: a literal, or INERT, or KEEP."""

    def used(self, path: str, given: Any) -> Any:
        """The value of an option after this rule."""
        if self.to is KEEP or (self.to is INERT and path.startswith("context.")):
            return given
        return OPTIONS[path].inert if self.to is INERT else self.to


def apply(rules: Sequence[Rule], layered: Layered, context: Context) -> tuple[Notice, ...]:
    """Run the rules over the values, in place, and return what became of which option."""
    notices: list[Notice] = []
    facts = Facts(layered.values, context)
    done: set[str] = set()
    for rule in rules:
        if not rule.when.holds(facts):
            continue
        for path in rule.options:
            if path not in done:
                notice = _act_on(rule, path, layered, context)
                if notice is not None:
                    notices.append(notice)
                    done.add(path)
    return tuple(notices)


def _act_on(rule: Rule, path: str, layered: Layered, context: Context) -> Notice | None:
    """Let a rule act on one option; nothing to report when it was neither asked for nor changed."""
    if path.startswith("context."):
        value = getattr(context, path.removeprefix("context."))
        used = rule.used(path, value)
        return Notice(path, rule.effect, rule.name, rule.source, rule.reason, value, used, "context", True)
    given, origin = layered.values[path], layered.origins[path]
    used = rule.used(path, given)
    changed = type(used) is not type(given) or used != given
    layered.values[path] = used
    if not _reportable(rule, path, given, changed, origin.asked):
        if changed:
            layered.quiet[path] = rule.name
        return None
    return Notice(
        path, rule.effect, rule.name, rule.source, rule.reason, given, used, str(origin), origin.asked
    )


def _reportable(rule: Rule, path: str, given: Any, changed: bool, asked: bool) -> bool:
    """An override is reported when it changes a value; the other effects when the option was in use.

    An assigned default with which the option does nothing is not in use.
    """
    if rule.effect == "overridden":
        return changed or rule.to is KEEP
    if rule.effect == "refused":
        return changed or rule.to is KEEP
    differs = bool(given != OPTIONS[path].default)
    return changed or differs if asked else changed and differs
