"""The form of rules: conditions with a text, effects, and one report for each option."""

from __future__ import annotations

from typing import Any

import pytest

from air_config import RULES, CompilerConfig, Context, Effect, Rule, resolve
from air_config._layers import Layered, layer
from air_config._notice import DONE
from air_config._rules import INERT, KEEP, Facts, apply, both, either, fact, option_is, option_off, option_on

WARMUP = "air.warmup"
MODE = "mode"


def layered(**options: Any) -> Layered:
    config = CompilerConfig()
    for name, value in options.items():
        config.set(name.replace("__", "."), value)
    return layer(config, {})


def facts(**options: Any) -> Facts:
    return Facts(layered(**options).values, Context(device="cpu"))


def rule(effect: Effect, to: Any = INERT, name: str = "a-rule") -> Rule:
    return Rule(name, fact("always", lambda context: True), (WARMUP,), effect, "a reason", "a document", to)


def test_conditions_evaluate_and_read_as_text() -> None:
    here = facts(air__warmup=3)
    on_cpu = fact("the device is the CPU", lambda context: context.device == "cpu")
    assert option_is(WARMUP, 2, 3).holds(here)
    assert not option_is(WARMUP, 2).holds(here)
    assert option_on(WARMUP).holds(here)
    assert option_off("air.verify").holds(here)
    assert both(on_cpu, option_on(WARMUP)).holds(here)
    assert not both(on_cpu, option_off(WARMUP)).holds(here)
    assert either(option_off(WARMUP), on_cpu).holds(here)
    text = both(either(on_cpu, option_off(WARMUP)), option_is(MODE, "a", "b")).text
    assert text == "(the device is the CPU or air.warmup is off) and mode is 'a' or 'b'"


@pytest.mark.parametrize(
    ("effect", "to", "given", "used", "told"),
    [
        ("ignored", INERT, 3, 1, True),
        ("ignored", INERT, 1, 1, False),
        ("ignored", INERT, None, 1, False),
        ("overridden", 5, 3, 5, True),
        ("overridden", 5, 5, 5, False),
        ("overridden", 5, None, 5, True),
        ("overridden", KEEP, 3, 3, True),
        ("refused", INERT, 3, 1, True),
        ("refused", INERT, None, 1, False),
        ("refused", KEEP, 3, 3, True),
    ],
)
def test_an_effect_sets_the_value_and_is_reported_when_it_matters(
    effect: Effect, to: Any, given: int | None, used: int, told: bool
) -> None:
    made = layered() if given is None else layered(air__warmup=given)
    notices = apply((rule(effect, to),), made, Context())
    assert made.values[WARMUP] == used
    assert [notice.option for notice in notices] == [WARMUP] * told
    for notice in notices:
        assert (notice.given, notice.used, notice.effect) == (1 if given is None else given, used, effect)
        assert notice.asked == (given is not None)


def test_an_option_is_reported_by_the_first_rule_only() -> None:
    notices = apply(
        (rule("ignored", name="first"), rule("overridden", 9, name="second")),
        layered(air__warmup=3),
        Context(),
    )
    assert [notice.rule for notice in notices] == ["first"]


def test_later_rules_see_what_earlier_rules_left() -> None:
    made = layered(air__warmup=3)
    later = Rule("later", option_is(WARMUP, 1), ("air.verify",), "overridden", "why", "where", True)
    apply((rule("ignored"), later), made, Context())
    assert made.values["air.verify"] is True


def test_a_fact_about_the_place_is_reported_as_it_is() -> None:
    here = Rule("here", fact("always", lambda context: True), ("context.cards",), "refused", "why", "where")
    (notice,) = apply((here,), layered(), Context(cards=2))
    assert (notice.option, notice.given, notice.used, notice.origin) == ("context.cards", 2, 2, "context")
    assert str(notice) == "work on several NPUs in one process is refused: why [here; where]"


def test_facts_are_told_as_what_the_user_did() -> None:
    on_facts = {path for rule in RULES for path in rule.options if path.startswith("context.")}
    assert on_facts == DONE.keys()
    settings = resolve(CompilerConfig(), Context(multi_stream=True, buckets=True))
    told = [str(notice) for notice in settings.notices]
    assert [text.partition(" is ")[0] for text in told] == [
        "set_dim_buckets",
        "work on several streams (npu_stream_switch and the like)",
    ]
    assert "False" not in told[1]
