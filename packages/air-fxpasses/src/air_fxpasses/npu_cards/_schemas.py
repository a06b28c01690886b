"""The schemas of the torch_npu wheel, as `tools/record_npu_schemas.py` recorded them."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Final

_recorded = json.loads(files(__package__).joinpath("schemas.json").read_text())

#: The version of torch_npu that the schemas were read from.
RECORDED_FROM: Final[str] = _recorded["torch_npu"]

#: Operator name, with overload unless it is the default one -> schema.
SCHEMAS: Final[dict[str, str]] = _recorded["schemas"]
