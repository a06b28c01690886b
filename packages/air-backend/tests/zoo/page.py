"""Makes docs/models.md of the results that are kept: sums, what fails and why, and a row for each architecture.

    python -m zoo --page          write the page (`nox -s zoo -- --page`)

A row is *good* where every mode gives what eager gives; *torch* where `aot_eager` does not either, which says nothing
about AIR; *left out* where no small model runs in eager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from zoo.results import FOLDER, Outcome, Row, read

PAGE: Final = Path("docs/models.md")
ABOUT: Final = """# Models

What `nox -s zoo` found: a tiny model with random weights of every architecture that a library lists, compiled in both
modes, called twice with different numbers, and compared with eager in structure, types, sizes and values. Nobody chose
the architectures, and configurations are shrunk by rule. Generated from `docs/models/*.json`; do not edit.

A number of pieces that is larger than that of graphs says that operators run eagerly between pieces
([why](reduce-overhead.md#what-can-be-captured)); more than one graph means that Dynamo itself breaks the model, with
every backend. Seconds are those of the first call: tracing, compiling and running, on the machine that ran the zoo,
busy or not; only the columns of one row can be compared. Where a result is more than 0.0001 of its largest value from
eager's, the same model in double precision decides: a mode that is at most twice as far from that as eager is differs
by rounding, and counts as the same. *Random* models draw numbers in a call: values are not
compared. What `aot_eager` does not compile, or compiles to something else than eager, is listed and counts for no mode.

On air-sim `siglip`, `siglip_vision_model`, `gemma4` and `gemma4_text` differ in max-autotune because torch_npu's eager
GELU ignores `approximate`, and the graph does not ([limits](limits.md)): with the exact GELU in these models both are
the same. `deformable_detr` differs by rounding: held against the same model in double precision on the CPU, eager is
off by 0.000069 of the largest value, and max-autotune by 0.000066.

## A model of your own
<!-- features: N26 -->

The same in your program: two calls, with other numbers in the second one, against eager.

<!-- run: cpu, sim -->
```python
import torch

device = torch.accelerator.current_accelerator() or "cpu"
model = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval().to(device)
for mode in ("reduce-overhead", "max-autotune"):
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="air", options={"mode": mode})
    for seed in (1, 2):
        x = torch.randn(2, 8, 32, generator=torch.Generator().manual_seed(seed)).to(device)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
```
"""
TORCH: Final = "aot_eager"
TOGETHER: Final = "together"
"""The trace that serves all ways: it has an outcome where it did not end."""
_PLACES: Final = {"cpu": "Plain CPU tensors", "sim": "The NPU of air-sim", "npu": "An NPU", "cuda": "A GPU"}
GROUNDS: Final = _PLACES | {f"{place}-training": f"Training: {name}" for place, name in _PLACES.items()}
REASON: Final = 160
WITHOUT_AT_MOST: Final = 3
"""Models of one run that a new version of a library may break; more say that the zoo makes them wrongly for it."""

Verdict = Literal["good", "fails", "torch", "left out"]


def verdict(row: Row) -> Verdict:
    """What a row says about AIR."""
    if row.left_out:
        return "left out"
    if all(outcome.kind == "same" for outcome in row.outcomes.values()):
        return "good"
    torchs = row.outcomes.get(TORCH)
    return "torch" if torchs is not None and torchs.kind != "same" else "fails"


def fallen(kept: Iterable[Row], fresh: Iterable[Row]) -> list[Row]:
    """The fresh rows that are not good though the kept ones were.

    Not one that another version of its library leaves without a model that runs in eager, where these are few.
    """
    good = _good(kept)
    lost = [row for row in fresh if row.key in good and verdict(row) != "good"]
    broken = broken_by_library(good.values(), lost)
    return lost if len(broken) > WITHOUT_AT_MOST else [row for row in lost if row not in broken]


def broken_by_library(kept: Iterable[Row], fresh: Iterable[Row]) -> list[Row]:
    """The fresh rows without a model that runs in eager, of another version of the library than the good kept ones."""
    good = _good(kept)
    left = (row for row in fresh if row.left_out and row.key in good)
    return [row for row in left if row.version != good[row.key].version]


def _good(rows: Iterable[Row]) -> dict[tuple[str, str], Row]:
    return {row.key: row for row in rows if verdict(row) == "good"}


def line(row: Row) -> str:
    """A row for a terminal."""
    if row.left_out:
        return f"left out {row.library}/{row.name}: {row.left_out}"
    told = (f"{way}: {_terse(outcome)}" for way, outcome in row.outcomes.items())
    return f"{verdict(row):8} {row.library}/{row.name}  {'  '.join(told)}"


def _terse(outcome: Outcome) -> str:
    if outcome.kind != "same":
        return f"{outcome.kind}: {outcome.reason}"
    eagerly = f" (eagerly {', '.join(outcome.eagerly)})" if outcome.eagerly else ""
    excuse = f" ({outcome.reason})" if outcome.reason else ""
    return f"{outcome.seconds:.1f} s, {outcome.pieces} of {outcome.graphs}{eagerly}{excuse}"


def text(by_ground: Mapping[str, Sequence[Row]]) -> str:
    """The page."""
    parts = [ABOUT.rstrip()]
    for ground, rows in by_ground.items():
        parts += ["", f"## {GROUNDS[ground]}", "", *_sums(rows), *_left_out(rows), *_table(rows)]
    return "\n".join(parts) + "\n"


def _modes(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(way for row in rows for way in row.outcomes if way not in (TORCH, TOGETHER)))


def _sums(rows: Sequence[Row]) -> list[str]:
    """How many of those that aot_eager compiles each mode does right, by library."""
    modes = _modes(rows)
    lines = [
        f"| library | run in eager | {TORCH} | {' | '.join(modes)} | left out |",
        "|---" * (len(modes) + 4) + "|",
    ]
    for library in dict.fromkeys(row.library for row in rows):
        own = [row for row in rows if row.library == library]
        run = [row for row in own if not row.left_out]
        compiled = [row for row in run if verdict(row) in ("good", "fails")]
        counts = (sum(_is_good(row, mode) for row in compiled) for mode in modes)
        lines.append(
            f"| {library} | {len(run)} | {len(compiled)} | {' | '.join(map(str, counts))} | {len(own) - len(run)} |"
        )
    return lines


def _is_good(row: Row, mode: str) -> bool:
    outcome = row.outcomes.get(mode)
    return outcome is not None and outcome.kind == "same"


def _left_out(rows: Sequence[Row]) -> list[str]:
    """Operators that run eagerly between pieces, with how many models have them."""
    lines: list[str] = []
    for mode in _modes(rows):
        counts = Counter(op for row in rows for op in row.outcomes.get(mode, Outcome("same")).eagerly)
        if counts:
            told = ", ".join(f"`{op}` ({count})" for op, count in counts.most_common())
            lines += ["", f"Between pieces in {mode}: {told}."]
    return lines


def _table(rows: Sequence[Row]) -> list[str]:
    modes = _modes(rows)
    heads = [
        f"{mode}: pieces of graphs, captures, s" if "reduce" in mode else f"{mode}: pieces of graphs, s"
        for mode in modes
    ]
    lines = [
        "",
        f"| architecture | made of | {TORCH}, s | {' | '.join(heads)} |",
        "|---" * (3 + len(modes)) + "|",
    ]
    for row in rows:
        if row.left_out:
            continue
        cells = [_cell(row.outcomes.get(way, row.outcomes.get(TOGETHER)), way) for way in (TORCH, *modes)]
        random = " (random)" if row.is_random else ""
        lines.append(f"| {row.library}/{row.name}{random} | {row.made_of.split()[0]} | {' | '.join(cells)} |")
    return lines


def _cell(outcome: Outcome | None, way: str) -> str:
    if outcome is None:
        return "not run"
    if outcome.kind != "same":
        reason = outcome.reason.replace("|", "\\|").replace("<", "&lt;")
        return f"**{outcome.kind}**: {reason[:REASON]}"
    seconds = f"{outcome.seconds:.1f}"
    if way == TORCH:
        return seconds
    captures = f", {outcome.captures}" if "reduce" in way else ""
    eagerly = f"; eagerly {', '.join(f'`{op}`' for op in outcome.eagerly)}" if outcome.eagerly else ""
    return f"{outcome.pieces} of {outcome.graphs}{captures}, {seconds}{eagerly}"


def written(root: Path) -> str:
    """The page as the results of a checkout make it."""
    by_ground = {ground: rows for ground in GROUNDS if (rows := read(root / FOLDER / f"{ground}.json"))}
    return text(by_ground)


def write(root: Path) -> None:
    (root / PAGE).write_text(written(root))
