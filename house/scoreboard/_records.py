"""What is kept of a run: one JSON schema for every ground, in benchmarks/results/."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Final, Literal, get_args

Ground = Literal["sim", "cpu", "cuda"]
GROUNDS: Final[tuple[Ground, ...]] = get_args(Ground)
SCHEMA: Final = 1
FOLDER: Final = "benchmarks/results"
LIBRARIES: Final = ("torch", "torch_npu", "transformers")


class RecordError(ValueError):
    """A file that is no record of this schema."""


@dataclass(frozen=True)
class Record:
    """What one ground gave: the rows of each board as they were measured, in the unit of the board."""

    ground: Ground
    device: str
    date: str
    quick: bool
    versions: Mapping[str, str]
    boards: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    schema: int = SCHEMA


def file_of(root: Path, ground: Ground) -> Path:
    return root / FOLDER / f"scoreboard-{ground}.json"


def write(record: Record, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(record), indent=1) + "\n")


def read(path: Path) -> Record:
    """A record; raises RecordError where the file is anything else."""
    try:
        record = Record(**json.loads(path.read_text()))
    except (TypeError, ValueError) as error:
        raise RecordError(f"{path.name}: {error}; measure anew with `nox -s scoreboard`") from error
    if (record.schema, str(record.ground) in GROUNDS) != (SCHEMA, True):
        raise RecordError(
            f"{path.name}: schema {record.schema}, ground {record.ground!r}; this is schema {SCHEMA}, "
            f"and grounds are {', '.join(GROUNDS)}"
        )
    for board, rows in record.boards.items():
        for name, value in rows.items():
            if not is_positive(value):
                raise RecordError(f"{path.name}: {board!r}, row {name!r} is {value!r} and no positive number")
    return record


def is_positive(value: object) -> bool:
    return isinstance(value, int | float) and value > 0


def read_all(root: Path) -> dict[Ground, Record]:
    """The records that there are."""
    files = {ground: file_of(root, ground) for ground in GROUNDS}
    return {ground: read(path) for ground, path in files.items() if path.exists()}


def now(ground: Ground, boards: Mapping[str, Mapping[str, float]], *, quick: bool) -> Record:
    """A record of this machine, today."""
    today = datetime.now(timezone.utc).date().isoformat()
    return Record(ground, device(ground), today, quick, versions(ground), boards)


def versions(ground: Ground) -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        if importlib.util.find_spec(name) and (name != "torch_npu" or ground == "sim"):
            found[name] = importlib.metadata.version(name)
    return found


def device(ground: Ground) -> str:
    """What the numbers are about, without a name of the machine."""
    if ground == "cuda":
        import torch

        return str(torch.cuda.get_device_name())
    return f"air-sim on {processor()}" if ground == "sim" else processor()


def has_gpu() -> bool:
    """Whether torch sees a CUDA device."""
    import torch

    return bool(torch.cuda.is_available())


def processor() -> str:
    """The model of the processor, as far as the machine says."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    model = named[0] if named and named[0] != "unknown" else platform.machine()
    return f"{model}, {len(named) or 'unknown number of'} cores"
