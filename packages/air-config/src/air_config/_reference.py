"""The reference page of the documentation, written from the tree and the tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from air_config._areas import ALL_MODES, AREAS
from air_config._flat import FLAT_OPTIONS
from air_config._option import Group, Option
from air_config._presets import PRESETS
from air_config._rulebook import RULES
from air_config._rules import INERT, KEEP, Rule
from air_config._tree import OPTIONS, Tree

__all__ = ["reference_page"]

COMMAND = "python -m air_config docs"


def reference_page() -> str:
    """The whole page as Markdown."""
    parts = [_head(), _presets(), *_group_tables(Tree()), _areas(), _flat_names(), _rules()]
    return "\n".join(parts).rstrip() + "\n"


def _head() -> str:
    return f"""# Configuration reference

<!-- Written by `{COMMAND}`; change the option tree, not this page. -->

Every option of AIR, {len(OPTIONS)} in all. An option is assigned in the tree
(`config.debug.run_eagerly = True`), or given flat to `torch.compile(options={{...}})` by its dotted path or
one of the [short names](#short-names), or set in the environment by the variable in its row.

What wins, lowest first: the defaults, a [preset](#presets), the environment, `air_config.patch(...)`, what the
configuration itself assigns. `config.show()` prints every value with its origin. `resolve` then applies the
[rules](#rules) and gives a notice for everything that does not come through as it was set.

Status: *beta* may still change in details; *experimental* may change or go. Modes: an option acts in the modes
of its row, and in others is ignored with a notice. Names with a leading underscore are spelt as in TorchAir.
"""


def _presets() -> str:
    rows = []
    for preset in PRESETS.values():
        values = ", ".join(f"`{path}={value!r}`" for path, value in preset.values.items()) or "none"
        rows.append((f"`{preset.name}`", _cell(preset.text), values))
    text = 'Chosen by `torch.compile(backend="air", mode="<name>")` or `CompilerConfig.preset("<name>")`; those of the'
    return f"## Presets\n\n{text}\nmode in effect are always there.\n\n" + _table(
        ("name", "what", "sets"), rows
    )


def _group_tables(group: Group) -> Iterator[str]:
    if group._OPTIONS:
        title = f"`config.{group._PATH}`" if group._PATH else "`config`"
        doc = (type(group).__doc__ or "").strip().splitlines()[0]
        head = ("option", "type", "default", "modes", "status", "what", "rules")
        rows = [_option_row(row) for row in group._OPTIONS.values()]
        yield f"## {title}\n\n{doc}\n\n{_table(head, rows)}"
    for name in group._GROUPS:
        yield from _group_tables(getattr(group, name))


def _option_row(row: Option) -> tuple[str, ...]:
    modes = "all" if row.area.modes == ALL_MODES else ", ".join(row.area.modes)
    what = f"{row.text} Takes {row.kind.allowed}. Variable `{row.environment_name}`."
    rules = ", ".join(f"[{rule.name}](#{_anchor(rule.name)})" for rule in RULES if row.path in rule.options)
    return (
        f"`{row.path}`",
        _cell(row.kind.name),
        f"`{row.default!r}`",
        modes,
        row.status,
        _cell(what),
        rules,
    )


def _areas() -> str:
    rows = []
    for area in AREAS:
        members = sum(row.area is area for row in OPTIONS.values())
        eager = ", ".join(area.eager_modes) or "none"
        rows.append(
            (area.name, area.text, ", ".join(area.modes), eager, ", ".join(area.devices), str(members))
        )
    text = "Every option belongs to an area, which says where it acts.\n\n"
    head = ("area", "what", "modes", "modes in which it acts under `run_eagerly`", "devices", "options")
    return f"## Areas\n\n{text}{_table(head, rows)}"


def _flat_names() -> str:
    rows = [
        (f"`{row.name}`", f"`{row.path}`", "the opposite" if row.inverted else "") for row in FLAT_OPTIONS
    ]
    text = "The names of the npugraph_ex backend. Options under `air.` may also be written without that prefix.\n\n"
    return f"## Short names\n\n{text}{_table(('name', 'option', 'means'), rows)}"


def _rules() -> str:
    text = (
        "In the order in which they run. *ignored*: the option has no effect. *overridden*: another value is used.\n"
        "*refused*: the option cannot be had; `Settings.check()` raises.\n"
    )
    return f"## Rules\n\n{text}\n" + "\n".join(_rule(rule) for rule in RULES)


def _rule(rule: Rule) -> str:
    options = ", ".join(f"`{path}`" for path in rule.options)
    to = ""
    if rule.effect == "overridden" and rule.to not in (INERT, KEEP):
        to = f" by `{rule.to!r}`"
    return (
        f"### {rule.name}\n\n- when: {rule.when.text}\n- effect: {rule.effect}{to}\n- why: {rule.reason}\n"
        f"- source: {rule.source}\n- options: {options}\n"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _anchor(heading: str) -> str:
    """The name under which a heading can be linked: punctuation goes."""
    return heading.replace(".", "")
