"""How torch's operators reach Ascend IR: by a converter, by a decomposition, or not at all."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import air_geir.ops  # noqa: F401 -- its operators are ours, and have converters as torch's have
from air_fxpasses.npu_cards import find, operators
from air_geir.converters import Converter, all_converters, find_converter, resolve, schema_line
from air_geir.converters.npu_by_name import ROWS
from air_geir.lowering import Expansions

CONVERTER, DECOMPOSITION, SIZES, MISSING = "converter", "decomposition", "computed from sizes", "missing"
_FROM_SIZES = frozenset({"sym_size", "sym_numel", "sym_stride", "sym_storage_offset"})


@dataclass(frozen=True)
class Coverage:
    """One operator and how it is lowered."""

    name: str
    way: str
    samples: int = 0


def core_aten() -> list[str]:
    """The overloads torch tags as core ATen, without those that write to an argument: AOTAutograd removes them."""
    found = []
    for registered in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, rest = registered.partition("::")
        if namespace != "aten":
            continue
        packet, _, overload = rest.partition(".")
        op = resolve(f"aten.{packet}.{overload or 'default'}")
        if op is not None and torch.Tag.core in op.tags and not op._schema.is_mutable:
            found.append(str(op))
    return found


def way_of(name: str) -> Coverage:
    """How one operator is lowered."""
    op = resolve(name)
    if name.split(".")[1] in _FROM_SIZES:
        return Coverage(name, SIZES)
    converter = find_converter(name)
    if converter is not None:
        return Coverage(name, CONVERTER, len(converter.samples))
    return Coverage(name, DECOMPOSITION if op is not None and Expansions().has(op) else MISSING)


def core_coverage() -> list[Coverage]:
    """Every core ATen overload and how it is lowered."""
    return [way_of(name) for name in core_aten()]


def report(rows: list[Coverage]) -> str:
    """The counts, then what is missing."""
    counts = {way: sum(r.way == way for r in rows) for way in (CONVERTER, DECOMPOSITION, SIZES, MISSING)}
    lines = [f"{len(rows)} operators: " + ", ".join(f"{n} {way}" for way, n in counts.items())]
    lines.extend(f"  missing  {r.name}" for r in rows if r.way == MISSING)
    return "\n".join(lines)


def _samples_of(converter: Converter) -> int:
    """How many calls its tests make: its own, or those of the card."""
    card = find(converter.target.removeprefix("npu.")) if converter.target.startswith("npu.") else None
    return len(card.calls() if card else converter.samples)


def _cards() -> list[str]:
    """The table of the cards: what is known of an operator of torch_npu beyond its signature."""
    lines = [
        "",
        "## Cards of torch_npu's operators",
        "",
        "What `air_fxpasses.npu_cards` says of each. One without an operator type is written with several, or with one",
        "that depends on its arguments; one without a rule for padding is refused where sizes are padded.",
        "",
        "| operator | Ascend IR | writes | a replay may change | padding |",
        "|---|---|---|---|---|",
    ]
    for card in sorted(operators(), key=lambda card: card.name):
        writes = ", ".join(dict.fromkeys((*card.mutated, *card.hides_writes)))
        cells = (
            card.ir.type if card.ir else "",
            writes,
            ", ".join(card.updatable),
            "yes" if card.padding else "",
        )
        lines.append(f"| `{card.name}` | {' | '.join(cells)} |")
    return lines


def _by_name() -> list[str]:
    """The table of those without a card."""
    return [
        "",
        "## Operators of torch_npu without a card",
        "",
        "One operator type computes each; no reference for the CPU is known. They have a converter where torch_npu is",
        "loaded, and tests compare what becomes of them with what TorchAir makes of the same call.",
        "",
        "| operator | Ascend IR |",
        "|---|---|",
        *(f"| `{name}` | {ir.type} |" for name, ir in sorted(ROWS.items())),
    ]


def operators_page() -> str:
    """The page docs/operators.md: every converter, its operator types' family and how many samples prove it."""
    rows = core_coverage()
    converters = sorted(all_converters(), key=lambda c: (c.family, c.target))
    lines = [
        "# Operators",
        "",
        "Written by `python -m air_geir operators`; do not edit.",
        "",
        f"{len(converters)} overloads have a converter. Operators without one are written with others by torch's own",
        "decompositions before they are converted. Samples are the calls each converter is compared with eager torch",
        "on, with static and with dynamic sizes; OpInfo adds its own.",
        "",
        f"Core ATen: {report(rows).splitlines()[0]}.",
    ]
    family = ""
    for converter in converters:
        if converter.family != family:
            family = converter.family
            lines += ["", f"## {family}", "", "| operator | signature | samples |", "|---|---|---|"]
        op = resolve(converter.target)
        told = converter.function.__doc__ or "loaded with its library"
        text = (schema_line(op) if op is not None else told.splitlines()[0]).replace("|", "\\|")
        lines.append(f"| `{converter.target}` | `{text}` | {_samples_of(converter)} |")
    lines += _cards() + _by_name()
    by_others = [r.name for r in rows if r.way == DECOMPOSITION]
    lines += ["", "## Core ATen by decomposition", "", ", ".join(f"`{name}`" for name in by_others), ""]
    return "\n".join(lines)
