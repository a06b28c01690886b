"""Records the schemas of the `npu::` operators that air-fxpasses declares, from an installed torch_npu.

    air-sim run python packages/air-fxpasses/tools/record_npu_schemas.py

Every operator recorded before and every name given on the command line is looked up in the running
process, where torch_npu has to be loaded (on a device or under air-sim), and written to `schemas.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch_npu

TABLE = Path(__file__).parents[1] / "src" / "air_fxpasses" / "npu_cards" / "schemas.json"


def schemas_of_the_wheel() -> dict[str, str]:
    """Operator name, with overload unless it is the default one -> schema."""
    found = (s for s in torch._C._jit_get_all_schemas() if s.name.startswith("npu::"))
    return {f"{s.name}.{s.overload_name}".removeprefix("npu::").rstrip("."): str(s) for s in found}


def main(names: list[str]) -> None:
    known = json.loads(TABLE.read_text())["schemas"] if TABLE.exists() else {}
    available = schemas_of_the_wheel()
    wanted = sorted({*known, *names})
    if missing := [name for name in wanted if name not in available]:
        sys.exit(f"torch_npu {torch_npu.__version__} has no {', '.join(missing)}")
    table = {"torch_npu": torch_npu.__version__, "schemas": {name: available[name] for name in wanted}}
    TABLE.write_text(json.dumps(table, indent=1) + "\n")
    print(f"{len(wanted)} schemas of torch_npu {torch_npu.__version__} written to {TABLE.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
