"""What TorchAir has and AIR has not, each with its reason and with what to do instead.

The rows make two things: the table in docs/migration.md (`python -m air_backend._absent` prints it), and the list that
a test holds against the public names of the torchair inside the torch_npu wheel.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Absent:
    """A name of TorchAir, why it is not served, and what does the same job."""

    name: str
    reason: str
    instead: str


ABSENT: Final = (
    Absent(
        "configs.compiler_config.OptionValue",
        "options are typed fields of air_config, not objects with a `.value`",
        "assign to the option itself; air_config.OPTIONS lists type, default and allowed values of each",
    ),
    Absent(
        "configs.compiler_config.CallableValue",
        "options are typed fields of air_config, not objects with a `.value`",
        "assign the function to the option itself",
    ),
    Absent(
        "configs.compiler_config.DeprecatedValue",
        "options are typed fields of air_config, not objects with a `.value`",
        "a deprecated option leaves a notice; the reference of options names the new one",
    ),
    Absent(
        "configs.compiler_config.NpuBaseConfig",
        "the tree of options is described by air_config, not by classes to derive from",
        "CompilerConfig().set(path, value) reaches every option by its dotted path",
    ),
    Absent(
        "ge.TensorMove",
        "it is one operator type among all that `ge.custom_op` builds",
        'ge.Clone(x), or ge.custom_op("TensorMove", inputs={"x": x})',
    ),
    Absent(
        "debug.fx_summary.path",
        "the table is written where the process runs, as TorchAir does without this option",
        "start the process in the folder that the table shall be in",
    ),
    Absent(
        "npugraphex_config",
        "it is where npugraph_ex keeps the options of all models of a process together",
        'torch.compile(backend="air", mode="npugraph_ex", options={...}) takes the same names, per model',
    ),
)


def table() -> str:
    """The rows as a Markdown table, for docs/migration.md."""
    lines = ["| TorchAir | why not | instead |", "|---|---|---|"]
    lines.extend(f"| `{row.name}` | {row.reason} | {row.instead} |" for row in ABSENT)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
