"""Random settings: what an option takes is read from its own row, so that a new option is drawn as well.

Left out are those that ask for something else than the result of the function.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch._dynamo.exc import BackendCompilerFailed

from air_config import OPTIONS, ConfigError, Option
from air_geir.errors import OptionError

#: Options, or groups of them, that are not drawn.
LEFT_OUT: Final = {
    "mode": "the test says it",
    "export": "it writes a file and runs nothing",
    "debug.fx_summary.skip_compile": "it runs nothing that AIR compiled",
    "air.kernels": "kernels of Inductor have a test of their own",
    "aoe_config": "the tuner is a library of CANN",
    "experimental_config.frozen_parameter": "its programs promise that parameters are not written",
    "debug.aclgraph.unsafe_skip_npugraph_capture_validation": "its programs promise that nothing moves",
}
#: Values that are not drawn: what they ask for is an error, or memory that a later call writes.
NOT_DRAWN: Final[Mapping[str, tuple[Any, ...]]] = {
    "air.unsupported": ("error",),
    "air.uncapturable": ("error",),
    "air.sync": ("error",),
    "air.outputs": ("view", "guarded"),
    "air.engine": ("torchair_extension", "ge_session", "atc"),  # of devices
}
#: What texts may be, where a pattern alone says it.
TEXTS: Final[Mapping[str, tuple[Any, ...]]] = {
    "dump_config.dump_step": ("0", "1-2"),
    "dump_config.dump_layer": ("",),
    "ge_config.aicore_num": ("4|8",),
    "ge_config.optimization_switch": ("ConstantFoldingPass:off",),
}
NUMBERS: Final = (-1, 0, 1, 2, 64, 2**20)
SETTINGS: Final = (1, 2, 3, 4, 6)
TRIES: Final = 60


def values_of(row: Option, folder: Path) -> tuple[Any, ...]:
    """Values that an option takes; none where it is not drawn."""
    if any(f"{row.path}.".startswith(f"{left_out}.") for left_out in LEFT_OUT):
        return ()
    candidates: tuple[Any, ...] = (True, False, *NUMBERS)
    if "path" in row.kind.name.split():
        candidates = (str(folder),)
    fit = [value for value in candidates if _is_taken(row, value)]
    found = (*TEXTS.get(row.path, ()), *row.kind.choices, *fit)
    return tuple(value for value in found if value not in NOT_DRAWN.get(row.path, ()))


def _is_taken(row: Option, value: Any) -> bool:
    try:
        row.kind.take(row.path, value)
    except ConfigError:
        return False
    return True


def takes(mode: str, options: Mapping[str, Any], device: str) -> bool:
    """Whether AIR takes these settings together, and this process after others; refusals have tests of their own."""
    torch._dynamo.reset()
    wanted: dict[str, Any] = {"mode": mode, **options}
    try:
        torch.compile(torch.neg, backend="air", options=wanted)(torch.ones(2, device=device))
    except BackendCompilerFailed as error:
        if isinstance(error.inner_exception, (ConfigError, OptionError)):
            return False
        raise
    return True


def draw_options(seed: int, mode: str, folder: Path, device: str = "cpu") -> dict[str, Any]:
    """Up to six options with a value each, that go together."""
    chance = random.Random(seed)
    values = {path: found for path, row in OPTIONS.items() if (found := values_of(row, folder))}
    for _ in range(TRIES):
        asked = chance.sample(sorted(values), chance.choice(SETTINGS))
        options = {path: chance.choice(values[path]) for path in asked}
        if takes(mode, options, device):
            return options
    raise AssertionError(f"no settings of seed {seed} go together")
