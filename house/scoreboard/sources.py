"""Which benchmark gives which section, which of its rows are whose, and why AIR is behind where it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from house.scoreboard.board import Row, Section, Who

Numbers = Mapping[str, Mapping[str, Any]]
"""What a benchmark writes for one table: row, and its numbers."""

MICROSECONDS: Final = "least_us"


@dataclass(frozen=True)
class Source:
    """One table of a benchmark.

    `key` is what the benchmark calls the table, `who` the beginnings of the names of rows (AIR's own row first), and
    `base` the rows whose times are added up to what ratios are to.
    """

    ground: str
    package: str
    script: str
    key: str
    id: str
    title: str
    base: tuple[str, ...]
    who: tuple[tuple[str, Who], ...]
    because: str = ""
    field: str = MICROSECONDS
    unit: str = "us"

    def section(self, table: Numbers) -> Section:
        """The section of a table."""
        values = {
            name: float(numbers[self.field]) for name, numbers in table.items() if self.field in numbers
        }
        bases = [next(name for name in values if name.startswith(start)) for start in self.base]
        base = sum(values[name] for name in bases)
        rows = tuple(Row(name, value, value / base, self._who(name)) for name, value in values.items())
        made = Section(self.id, self.title, " + ".join(bases), self.unit, rows)
        return Section(**{**vars(made), "because": self.because}) if made.is_loss else made

    def _who(self, name: str) -> Who:
        return next((who for start, who in self.who if name.startswith(start)), "other")


def _hot_path(parameters: int) -> Source:
    return Source(
        "air-sim", "air-aclgraph", "hot_path.py", f"hot path, {parameters} parameters, queue 0",
        f"call-{parameters}", f"A call of a captured graph, {parameters} parameters",
        ("a  bare replay", "b  Dynamo"),
        (("c  ", "air"), ("d", "peer"), ("e  ", "peer"), ("a  ", "floor"), ("b  ", "floor"), ("ab ", "floor")),
    )  # fmt: skip


_FUSED: Final = (("AIR, kernels of Inductor", "air"), ("Inductor", "peer"), ("eager", "peer"))
_COPY: Final = "inputs are copied into the memory of the capture; with air.adaptive_slots they are read in place"

SOURCES: Final[tuple[Source, ...]] = (
    _hot_path(288),
    _hot_path(1000),
    Source(
        "air-sim", "air-aclgraph", "keys_updates_pins.py", "pinned", "pinned", "A pinned call",
        ("one input copy + bare replay",),
        (("pinned call", "air"), ("one input copy", "peer")),
    ),
    Source(
        "air-sim", "air-backend", "pieces_cost.py", "pieces-npu", "pieces-npu",
        "A graph in three pieces with two eager operators between them", ("three pieces and",),
        (("the graph in", "air"), ("three pieces", "floor")),
    ),
    Source(
        "cpu", "air-backend", "pieces_cost.py", "pieces-cpu", "pieces-cpu",
        "A graph in three pieces with two eager operators between them", ("three pieces and",),
        (("the graph in", "air"), ("three pieces", "floor")),
    ),
    Source(
        "cpu", "air-aclgraph", "host_decode.py", "host decode", "decode", "A decode step of 4 layers, ATen's kernels",
        ("eager",), (("air-aclgraph", "air"), ("eager", "peer"), ("aot_eager", "peer")),
    ),
    Source(
        "cpu", "air-aclgraph", "bucket_cost.py", "buckets", "buckets", "A size seen before, padded to a bucket",
        ("each size captured, 13",), (("with buckets, 13", "air"), ("each size captured, 13", "floor")),
    ),
    Source(
        "cpu", "air-backend", "fused_kernels.py", "chain of 50 operators", "chain",
        "50 elementwise operators, Inductor's kernels under AIR's capture", ("Inductor",), _FUSED, because=_COPY,
    ),
    Source(
        "cpu", "air-backend", "fused_kernels.py", "MLP of 8 layers", "mlp",
        "An MLP of 8 layers, Inductor's kernels under AIR's capture", ("Inductor",), _FUSED, because=_COPY,
    ),
    Source(
        "cpu", "air-geir", "reference_decode.py", "reference decode", "reference",
        "A decode step of 8 layers, max-autotune without an NPU", ("eager",), (("AIR", "air"), ("eager", "peer")),
        because="the reference engine is there to be right, not fast: it computes Ascend IR operator by operator",
        field="ms", unit="ms",
    ),
    Source(
        "cpu", "air-fxpasses", "pipeline_cost.py", "passes", "passes", "Passes over 10,000 operators", ("Inductor",),
        (("AIR", "air"), ("Inductor", "peer")), field="seconds", unit="s",
    ),
    Source(
        "cpu", "air-streams", "plan_time.py", "stream plan", "plan", "The plan of 8 streams, with its checks",
        ("1,000 nodes",), (("100,000 nodes", "air"),), field="seconds", unit="s",
    ),
    Source(
        "cpu", "air-geir", "conversion.py", "conversion", "conversion",
        "Conversion to Ascend IR: a node, by the size of the graph",
        ("2,500 nodes",), (("20,000 nodes", "air"),), field="us a node",
    ),
    Source(
        "cpu", "air-backend", "first_call.py", "first call", "first-call",
        "The first call of a process, a Llama of 4 layers", ("traced",),
        (("cache_compile", "air"), ("traced", "floor")), field="seconds", unit="s",
    ),
)  # fmt: skip


def sections(ground: str, found: Mapping[str, Any]) -> Iterator[Section]:
    """The sections of a ground, of the tables that benchmarks wrote; what was not measured is left out."""
    tables = {**found, **found.get("fused kernels", {})}
    for source in SOURCES:
        if source.ground == ground and source.key in tables:
            yield source.section(tables[source.key])
