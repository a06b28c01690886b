"""A model as a file for the offline compiler, written and checked without a device.

    python examples/export/export.py

`atc --framework=1 --model=classifier.air --soc_version=... --output=classifier` makes an offline model of it.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import torch
from torch import nn

from air_backend import CompilerConfig, dynamo_export
from air_geir import file
from air_geir.verify import verify_model


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)
    ).eval()
    config = CompilerConfig()
    config.export.experimental.enable_record_nn_module_stack = True  # nodes know the module they come from
    with tempfile.TemporaryDirectory() as folder:
        dynamo_export(
            torch.randn(1, 3, 16, 16),
            model=model,
            export_path=folder,
            export_name="classifier",
            config=config,
        )
        path = Path(folder) / "classifier.air"
        broken = verify_model(file.parse_model(path.read_bytes()))
        graph = file.read(path)
    assert not broken, broken
    print("the file keeps every rule of the engine's loader")
    print(
        "operators:",
        ", ".join(f"{count} {name}" for name, count in sorted(Counter(n.op_type for n in graph).items())),
    )


if __name__ == "__main__":
    main()
