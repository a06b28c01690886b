"""What the scoreboard shows: its tables in order, what is 1.00 in each, and why a row of ours may be a loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from house.scoreboard._records import Ground, Record, RecordError
from house.scoreboard._texts import ABOUT, AT_MOST, REASONS, TITLES, Text

OURS: Final = "AIR"
"""How rows of ours begin."""
Rows = dict[str, float]
Reader = Callable[[Any], Rows]


class Board(NamedTuple):
    """One table: rows of one process, told as ratios."""

    key: str
    ground: Ground
    run: str
    """The benchmark whose results are read."""
    read: Reader
    base: tuple[str, ...]
    """The rows whose sum is 1.00; none where the rows are ratios already."""
    peers: tuple[str, ...] = ()
    """The rows that none of ours may be above; without them there is no loss, only growth."""
    grows_with: str = ""
    """What the rows are numbers of: they are drawn as a line, and ours are judged by `at_most`."""
    at_most: float = 0.0

    @property
    def title(self) -> Text:
        return TITLES[self.key]

    @property
    def about(self) -> Text:
        return ABOUT[self.key]


class Line(NamedTuple):
    """A row as it is shown."""

    name: str
    ratio: float
    ours: bool
    lost_to: str
    """The peer that is better, or the bound that was missed; empty where it is no loss."""
    reason: Text | None

    @property
    def shown(self) -> str:
        """The ratio for a reader: no decimals where it has three digits or more."""
        return f"{self.ratio:.2f}" if self.ratio < 100 else f"{self.ratio:,.0f}"


def lines(board: Board, record: Record | None) -> list[Line]:
    """The rows of a table; none where nothing is recorded."""
    rows = {} if record is None else record.boards.get(board.key, {})
    if not rows:
        return []
    if missing := [name for name in board.base if name not in rows]:
        raise RecordError(
            f"{board.key!r}: nothing is recorded for {', '.join(missing)}, which is 1.00; measure {board.run!r} anew"
        )
    one = sum(rows[name] for name in board.base) or 1.0
    return [_line(board, rows, name, one) for name in rows]


def _line(board: Board, rows: Mapping[str, float], name: str, one: float) -> Line:
    ratio, ours = rows[name] / one, name.startswith(OURS) or bool(board.grows_with)
    lost_to = ""
    if board.grows_with and round(ratio, 2) > board.at_most:
        lost_to = AT_MOST.en.format(board.at_most)
    elif ours and board.peers:
        best = min((peer for peer in board.peers if peer in rows), key=rows.__getitem__, default="")
        if best and round(ratio, 2) > round(rows[best] / one, 2):
            lost_to = best
    return Line(name, ratio, ours, lost_to, REASONS.get((board.key, name)) or REASONS.get((board.key, "")))


def taken(run: str, data: Any) -> dict[str, Rows]:
    """The rows of every table that this benchmark fills."""
    return {board.key: rows for board in BOARDS if board.run == run and (rows := board.read(data))}


def picked(
    data: Any, path: tuple[Any, ...], names: Mapping[str, str] | None = None, field: str = "least_us"
) -> Rows:
    """The rows of one title of a benchmark, one number each, under the names that are shown."""
    for key in path:
        data = data.get(key, {})
    wanted = dict.fromkeys(data) if names is None else names
    rows = {shown or name: data[name] for name, shown in wanted.items() if name in data}
    return {name: row[field] if isinstance(row, dict) else row for name, row in rows.items()}


def at(*path: str, names: Mapping[str, str] | None = None, field: str = "least_us") -> Reader:
    return lambda data: picked(data, path, names, field)


def of_batch(batch: int, field: str) -> Reader:
    """The title of the decode benchmark that has this batch; the rest of it names the device."""

    def read(data: Any) -> Rows:
        title = next((title for title in data if f"batch {batch}," in title), "")
        return picked(data, (title,), GPU, field)

    return read


def by_number(*path: str, per_item: bool = False) -> Reader:
    """Rows that are named by a number, from the least."""

    def read(data: Any) -> Rows:
        rows = {int(name.split()[0]): value for name, value in picked(data, path).items()}
        return {f"{n:,}": value / n if per_item else value for n, value in sorted(rows.items())}

    return read


def by_parameters(data: Any) -> Rows:
    """A call beside Dynamo and a bare replay, for each number of parameters."""
    found = {int(title.split()[2]): rows["c / (a + b)"]["least"] for title, rows in data.items()}
    return {f"{n:,}": ratio for n, ratio in sorted(found.items())}


def of_the_largest(data: Any) -> Rows:
    """The passes over the graph with most nodes."""
    return picked(data, (max(data, key=lambda title: int(title.split()[1])),))


HOT: Final = {
    "a  bare replay": "bare replay",
    "b  Dynamo, backend does nothing": "Dynamo alone",
    "ab Dynamo, backend does a bare replay": "Dynamo and a bare replay in one call",
    "c  air-aclgraph": "AIR reduce-overhead",
    "c+ air-aclgraph, input bound (adaptive_slots)": "AIR reduce-overhead, input bound",
    "d1 TorchAir reduce-overhead": "TorchAir reduce-overhead",
    "d2 ... frozen_parameter": "TorchAir, frozen_parameter",
    "d3 ... frozen_parameter, clone_input off": "TorchAir, frozen_parameter, clone_input off",
    "e  npugraph_ex": "npugraph_ex",
}
FLOOR: Final = ("bare replay", "Dynamo alone")
RIVALS: Final = (
    "TorchAir reduce-overhead",
    "TorchAir, frozen_parameter",
    "TorchAir, frozen_parameter, clone_input off",
    "npugraph_ex",
)
PINS: Final = {
    "one input copy + bare replay": "one input copy and a bare replay",
    "pinned call": "AIR, pinned call",
    "compiled call": "the same through torch.compile",
    "compiled call, skip_guard_eval_unsafe": "the same through torch.compile, without guards",
}
LENGTHS: Final = {
    "by hand, lengths that grow": "a replay patched by hand",
    "AIR, lengths that grow": "AIR, lengths that grow",
    "AIR, fixed lengths": "AIR, fixed lengths",
    "TorchAir, lengths that grow": "TorchAir, lengths that grow",
    "TorchAir, fixed lengths": "TorchAir, fixed lengths",
}
TRAINING: Final = {
    "eager": "eager",
    "aot_eager": "aot_eager",
    "TorchAir": "TorchAir",
    "AIR": "AIR reduce-overhead",
}
FUSED: Final = {
    "eager": "eager",
    "aot_eager": "aot_eager",
    "Inductor": "Inductor",
    "TorchScript": "TorchScript",
    "AIR, kernels of Inductor": "AIR, kernels of Inductor",
    "AIR, kernels of Inductor, inputs copied": "AIR, kernels of Inductor, inputs copied",
    "AIR, kernels of ATen": "AIR, kernels of ATen",
}
DECODE: Final = {
    "eager": "eager",
    "aot_eager": "aot_eager",
    "Inductor": "Inductor",
    "air-aclgraph, host runtime": "AIR, kernels of ATen",
}
FIRST: Final = {
    "traced": "AIR, traced",
    "torch's cache": "AIR, found in torch's cache",
    "cache_compile": "AIR, found by cache_compile",
}
ZOO: Final = {
    "aot_eager": "aot_eager",
    "inductor": "Inductor",
    "reduce-overhead": "AIR reduce-overhead",
    "max-autotune": "AIR max-autotune",
}
CAPTURING: Final = ("AIR, kernels of ATen", "AIR, kernels of Inductor", "reduce-overhead", "cudagraphs")
COMPILING: Final = (*CAPTURING[:2], "Inductor", *CAPTURING[2:])
"""Inductor's default keeps no captures, and the bytes of none are no positive number."""
GPU: Final = {
    "eager": "eager",
    "bare replay": "bare replay",
    "copies + bare replay": "copies and a bare replay",
    "AIR, kernels of ATen": "AIR, kernels of ATen",
    "AIR, kernels of Inductor": "AIR, kernels of Inductor",
    "AIR, products side by side": "AIR, kernels of Inductor, products side by side",
    "Inductor": "Inductor, default",
    "reduce-overhead": "Inductor, reduce-overhead",
    "max-autotune": "Inductor, max-autotune",
    "cudagraphs": "cudagraphs",
}
GENERATE: Final = {
    "eager": "eager",
    "Inductor": "Inductor, as transformers compiles",
    "AIR, kernels of ATen": "AIR, kernels of ATen",
    "AIR, kernels of Inductor": "AIR, kernels of Inductor",
    "AIR, kernels of Inductor, caches adopted": "AIR, kernels of Inductor, caches adopted",
    "AIR, kernels of Inductor, caches adopted, products side by side": (
        "AIR, kernels of Inductor, caches adopted, products side by side"
    ),
}
GPU_RIVALS: Final = (
    "eager",
    "Inductor, default",
    "Inductor, reduce-overhead",
    "Inductor, max-autotune",
    "cudagraphs",
)
CPU_RIVALS: Final = ("eager", "aot_eager", "Inductor", "TorchScript")

BARE: Final = "bare replay"
MODELS: Final = {"prefill": "prefill of 512 tokens", "vit": "ViT, 8 images", "experts": "experts, 64 tokens"}
CHAIN: Final = "chain of 50 operators"
MLP: Final = "MLP of 8 layers"
PLAN: Final = by_number("plan, collector off, s", per_item=True)
COPY: Final = "one input copy and a bare replay"

BOARDS: Final = (
    Board(
        "host 288", "sim", "hot path, 288", at("hot path, 288 parameters, queue 0", names=HOT), FLOOR, RIVALS
    ),
    Board(
        "host 1000",
        "sim",
        "hot path, 1000",
        at("hot path, 1000 parameters, queue 0", names=HOT),
        FLOOR,
        RIVALS,
    ),
    Board("pinned", "sim", "pins", at("pinned", names=PINS), (COPY,), (COPY,)),
    Board(
        "lengths",
        "sim",
        "lengths",
        at("growing lengths", names=LENGTHS),
        ("a replay patched by hand",),
        ("TorchAir, lengths that grow",),
    ),
    Board("training", "sim", "training", at("training step", names=TRAINING), ("eager",), ("TorchAir",)),
    Board(
        "training memory",
        "sim",
        "training",
        at("most MiB in a step", names=TRAINING),
        ("eager",),
        ("TorchAir",),
    ),
    Board("conversion", "sim", "conversion", at("conversion, s"), ("TorchAir",), ("TorchAir",)),
    Board("memory", "sim", "conversion", at("peak Python memory, bytes"), ("TorchAir",), ("TorchAir",)),
    Board("engine call", "sim", "conversion", at("call, us"), ("TorchAir",), ("TorchAir",)),
    Board("parameters", "sim", "parameters", by_parameters, (), (), "parameters", 1.15),
    Board("keys", "sim", "keys", by_number("many keys"), ("1",), (), "keys", 1.2),
    Board("chain", "cpu", "fused", at("fused kernels", CHAIN, names=FUSED), ("eager",), CPU_RIVALS),
    Board("mlp", "cpu", "fused", at("fused kernels", MLP, names=FUSED), ("eager",), CPU_RIVALS),
    Board("decode", "cpu", "decode", at("host decode", names=DECODE), ("eager",), CPU_RIVALS),
    Board("zoo", "cpu", "zoo", at("compile time of the zoo, s", names=ZOO), ("aot_eager",), ("Inductor",)),
    Board("first call", "cpu", "first call", at("first call, s", names=FIRST), ("AIR, traced",)),
    Board("passes", "cpu", "passes", of_the_largest, ("Inductor",), ("Inductor",)),
    Board("nodes", "cpu", "nodes", by_number("conversion, s per node"), ("2,500",), (), "nodes", 1.2),
    *(
        Board(f"plan {n}", "cpu", f"plan, {n} streams", PLAN, ("5,000",), (), "nodes", 1.2)
        for n in (2, 8, 32)
    ),
    *(
        Board(f"gpu {what} {batch}", "cuda", "gpu decode", of_batch(batch, field), (one,), GPU_RIVALS)
        for what, field, one in (
            ("latency", "latency_us", BARE),
            ("host time", "host_us", GPU["reduce-overhead"]),
        )
        for batch in (1, 8, 64)
    ),
    *(
        Board(
            f"gpu {name}",
            "cuda",
            "gpu models",
            at(title, names=GPU, field="latency_us"),
            (BARE,),
            GPU_RIVALS,
        )
        for name, title in MODELS.items()
    ),
    Board(
        "gpu generate",
        "cuda",
        "gpu generate",
        at("generate", names=GENERATE, field="latency_us"),
        (GENERATE["Inductor"],),
        (GENERATE["Inductor"],),
    ),
    *(
        Board(
            f"gpu {what}",
            "cuda",
            "gpu shapes",
            at("nine sizes", names={name: GPU[name] for name in ways}, field=field),
            (GPU["reduce-overhead"],),
            GPU_RIVALS,
        )
        for what, field, ways in (("memory", "bytes", CAPTURING), ("seconds", "seconds", COMPILING))
    ),
    Board("gpu chain", "cuda", "gpu fused", at("fused kernels", CHAIN, names=FUSED), ("eager",), CPU_RIVALS),
    Board("gpu mlp", "cuda", "gpu fused", at("fused kernels", MLP, names=FUSED), ("eager",), CPU_RIVALS),
)


class Sum(NamedTuple):
    """What the tables say together: rows of ours that are no loss, that are one, and tables without numbers."""

    held: int
    lost: int
    open: int


def sum_of(records: Mapping[Ground, Record]) -> Sum:
    every = [lines(board, records.get(board.ground)) for board in BOARDS]
    ours = [line for rows in every for line in rows if line.ours]
    lost = sum(bool(line.lost_to) for line in ours)
    return Sum(len(ours) - lost, lost, sum(not rows for rows in every))


def told(records: Mapping[Ground, Record]) -> str:
    held, lost, without = sum_of(records)
    return f"{held} rows of ours hold, {lost} lose, {without} of {len(BOARDS)} tables are open"


def unexplained(records: Mapping[Ground, Record]) -> list[str]:
    """Losses without a written reason."""
    return [
        f"{board.key}: {line.name!r} loses to {line.lost_to!r} without a reason; write one into "
        "house/scoreboard/_texts.py"
        for board in BOARDS
        for line in lines(board, records.get(board.ground))
        if line.lost_to and line.reason is None
    ]
