"""The log of all packages under one name, as TorchAir has it: `logger.setLevel` and `TNG_LOG_LEVEL`.

Every module logs under its own name, so `TORCH_LOGS="+air_backend,+air_geir"` works with the names of the packages and
needs nothing from here. This is for scripts that say `torchair.logger.setLevel(logging.DEBUG)`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, Final

PACKAGES: Final = ("air_backend", "air_aclgraph", "air_geir", "air_fxpasses", "air_streams", "air_config")
VARIABLE: Final = "TNG_LOG_LEVEL"
LEVELS: Final[dict[str, int]] = {
    "0": logging.DEBUG,
    "1": logging.INFO,
    "2": logging.WARNING,
    "3": logging.ERROR,
    "4": logging.CRITICAL,  # TorchAir's EVENT: nothing below it is shown
}


class PackagesLogger(logging.LoggerAdapter[logging.Logger]):
    """Logs as `air_backend`; its level and its handlers are those of all packages."""

    def setLevel(self, level: int | str) -> None:  # noqa: N802  # the name of logging
        """Sets the level of all packages; without any handler their log goes to standard error."""
        for name in PACKAGES:
            package = logging.getLogger(name)
            package.setLevel(level)
            if not package.hasHandlers():
                package.addHandler(_stderr())

    def addHandler(self, handler: logging.Handler) -> None:  # noqa: N802
        for name in PACKAGES:
            logging.getLogger(name).addHandler(handler)

    def removeHandler(self, handler: logging.Handler) -> None:  # noqa: N802
        for name in PACKAGES:
            logging.getLogger(name).removeHandler(handler)

    @property
    def level(self) -> int:
        return self.logger.level

    @property
    def handlers(self) -> list[logging.Handler]:
        return self.logger.handlers


logger: Final = PackagesLogger(logging.getLogger("air_backend"), {})


def read_variable(environment: Mapping[str, str] = os.environ) -> None:
    """Sets the level that `TNG_LOG_LEVEL` asks for."""
    text = environment.get(VARIABLE)
    if text is None:
        return
    if text not in LEVELS:
        names = ", ".join(f"{number} {logging.getLevelName(level)}" for number, level in LEVELS.items())
        logger.warning("%s=%s is ignored: it is no level; use one of %s", VARIABLE, text, names)
        return
    logger.setLevel(LEVELS[text])


def _stderr() -> Any:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("[%(levelname)s] %(asctime)s %(name)s:%(lineno)d %(message)s"))
    return handler
