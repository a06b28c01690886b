"""The log of all packages under one name, as TorchAir has it: `logger.setLevel` and `TNG_LOG_LEVEL`.

Every module logs under its own name, so `TORCH_LOGS="air_aclgraph,+air_geir"` works with the names of the packages and
needs nothing from here; `TORCH_LOGS=air` is the alias of all of them. The logger, `air_backend`, is for scripts that
say `torchair.logger.setLevel(logging.DEBUG)`, and so its name means all packages to torch as well.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, Final

import torch._logging._internal as internal

PACKAGES: Final = ("air_backend", "air_aclgraph", "air_geir", "air_fxpasses", "air_streams", "air_config")
ALIAS: Final = "air"
EVENT: Final = 35
VARIABLE: Final = "TNG_LOG_LEVEL"
LEVELS: Final[dict[str, int]] = {
    "0": logging.DEBUG,
    "1": logging.INFO,
    "2": logging.WARNING,
    "3": logging.ERROR,
    "4": logging.CRITICAL,  # TorchAir's EVENT: nothing below it is shown
}


class PackagesLogger(logging.Logger):
    """The logger `air_backend`, whose level, handlers and propagation are those of all packages."""

    def setLevel(self, level: int | str) -> None:  # noqa: N802  # the name of logging
        """Sets the level of all packages; without any handler their log goes to standard error."""
        super().setLevel(level)
        for package in _others():
            package.setLevel(self.level)
        shown = _stderr()
        for package in (self, *_others()):
            if not package.hasHandlers():
                logging.Logger.addHandler(package, shown)

    def addHandler(self, handler: logging.Handler) -> None:  # noqa: N802
        super().addHandler(handler)
        if internal._is_torch_handler(handler):  # torch gives each logger one of its own
            return
        for package in _others():
            package.addHandler(handler)

    def removeHandler(self, handler: logging.Handler) -> None:  # noqa: N802
        super().removeHandler(handler)
        for package in _others():
            package.removeHandler(handler)

    @property
    def handlers(self) -> list[logging.Handler]:  # as `assertLogs` of unittest assigns it
        found: list[logging.Handler] = vars(self)["handlers"]
        return found

    @handlers.setter
    def handlers(self, handlers: list[logging.Handler]) -> None:
        before = vars(self).get("handlers", [])
        vars(self)["handlers"] = handlers
        for package in _others():
            for handler in before:
                package.removeHandler(handler)
            for handler in handlers:
                package.addHandler(handler)

    def event(self, message: object, *args: object) -> None:
        """Logs at the level EVENT of torchair, above WARNING."""
        self.log(EVENT, message, *args, stacklevel=2)


def _others() -> list[logging.Logger]:
    return [logging.getLogger(name) for name in PACKAGES if name != PACKAGES[0]]


def _logger() -> PackagesLogger:
    """The logger of the first package, made with its class; one that is there already becomes one in place."""
    found = logging.getLogger(PACKAGES[0])
    found.__class__ = PackagesLogger
    assert isinstance(found, PackagesLogger)
    return found


logger: Final = _logger()


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


def register_alias() -> None:
    """Makes `air` mean all packages in `TORCH_LOGS` and in `torch._logging.set_logs(modules={"air": ...})`.

    torch reads the variable when it is imported, before us, and takes the word because a module has that name; what it
    made of it there, a level and handlers, the loggers of all packages get here.
    """
    internal.log_registry.register_log(ALIAS, list(PACKAGES))
    alias = logging.getLogger(ALIAS)
    if not alias.handlers:
        return
    logger.setLevel(alias.level)
    for package in (logger, *_others()):
        package.propagate = False
        for handler in alias.handlers:
            logging.Logger.addHandler(package, handler)


def _stderr() -> Any:
    handler = logging.StreamHandler()
    handler.addFilter(_is_not_shown_by_torch)
    handler.setFormatter(logging.Formatter("[%(levelname)s] %(asctime)s %(name)s:%(lineno)d %(message)s"))
    return handler


def _is_not_shown_by_torch(record: logging.LogRecord) -> bool:
    """Whether nothing that TORCH_LOGS asked for shows the line already."""
    package = logging.getLogger(record.name.partition(".")[0])
    return not any(internal._is_torch_handler(handler) for handler in package.handlers)
