"""`TORCH_COMPILE_DEBUG=1`: what happened in a compilation, in torch's own debug folder.

    torch_compile_debug/run_<time>-pid_<pid>/air/
        debug.log                        the log of all packages at DEBUG
        model__0/dynamo_out_graph.txt    what Dynamo gave
        model__0/inference/              or forward, backward
            000_aot_graph.txt            what AOTAutograd gave
            001_after_<pass>.txt         after each pass that changed it
            005_ge_original.txt, .pbtxt  in max-autotune: the Ascend IR graph, before and after its passes
            output_code.py               what runs
            repro.py                     the graph alone, as a script that compiles and runs it
            explain.json                 everything `air explain` says

The folder moves with `torch._dynamo.config.debug_dir_root`; every rank has a process and so a folder of its own. It is
there to look at: where it cannot be written a warning says so once, and the program goes on.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from torch import fx
from torch._dynamo.utils import get_debug_dir

from air_backend._logs import logger
from air_backend.dump._graphs import readable
from air_backend.errors import DebugFolderWarning
from air_geir.dump import WRITERS
from air_geir.ir import Graph
from air_graph import files
from air_graph.errors import CannotWrite

IR_FORMS: Final = ("txt", "pbtxt", "py")

_models: Final = itertools.count()
_logs: Final[dict[Path, logging.Handler]] = {}
_said: Final[list[CannotWrite]] = []


class DebugFolder:
    """The folder of one graph; files are numbered in the order in which they are made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._number = itertools.count()

    def role(self, role: str) -> DebugFolder:
        """The folder of one graph of AOTAutograd; a second one of the same role gets a number."""
        for number in itertools.count():
            path = self.path / (f"{role}_{number}" if number else role)
            if not path.exists():
                try:
                    files.folder(path, "the debug folder")
                except CannotWrite as error:
                    _say(error)
                return DebugFolder(path)
        raise AssertionError("unreachable")

    def graph(self, stage: str, gm: fx.GraphModule) -> None:
        self._numbered(stage, "txt", readable(gm))

    def listing(self, pass_name: str, before: str, after: str) -> None:
        """Takes the texts around a pass, as the pipeline gives them; keeps those that differ."""
        if before != after:
            self._numbered(f"after_{pass_name}", "txt", after + "\n")

    def ascend_ir(self, stage: str, graph: Graph) -> None:
        number = next(self._number)
        for form in IR_FORMS:
            self.text(f"{number:03d}_ge_{stage}.{form}", WRITERS[form](graph))

    def report(self, name: str, data: Mapping[str, Any]) -> None:
        self.text(f"{name}.json", json.dumps(data, indent=2, default=str))

    def text(self, name: str, text: str) -> None:
        try:
            files.write_text(self.path / name, text, "a file of the debug folder")
        except CannotWrite as error:
            _say(error)

    def _numbered(self, stage: str, form: str, text: str) -> None:
        self.text(f"{next(self._number):03d}_{stage}.{form}", text)


def debug_folder() -> DebugFolder | None:
    """The folder of the next model, or None when the variable is not set."""
    if os.environ.get("TORCH_COMPILE_DEBUG", "0") != "1":
        return None
    try:
        root = files.folder(Path(get_debug_dir()) / "air", "the debug folder")
        with files.writing(root, "the debug folder"):
            _log_to(root / "debug.log")
        return DebugFolder(files.folder(root / f"model__{next(_models)}", "the debug folder"))
    except CannotWrite as error:
        _say(error)
        return None


def _say(error: CannotWrite) -> None:
    if not _said:
        _said.append(error)
        warnings.warn(f"TORCH_COMPILE_DEBUG: {error}", DebugFolderWarning, stacklevel=2)


class _Log(logging.FileHandler):
    """A log that ends where it cannot be written."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 -- logging's name
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        logger.removeHandler(self)
        _say(CannotWrite("the log of the debug folder", self.baseFilename, error))


def _log_to(path: Path) -> None:
    """Adds the file to the loggers of all packages, once, and lets them speak at DEBUG."""
    if path in _logs:
        return
    handler = _Log(path, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s:%(lineno)d %(message)s"))
    _logs[path] = handler
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
