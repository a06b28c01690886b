"""CANN's program `atc`: an `.air` file becomes an offline model, or an error with what the program said."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from air_geir.errors import CompilationFailed, EngineError, EngineUnavailableError
from air_geir.offline._pyacl import soc_name

PROGRAM = "atc"
OURS = frozenset({"framework", "model", "output", "soc_version"})
"""Options that the arguments of `compile_air` are for."""


ADVICE: Final = "install CANN's toolkit and source its set_env.sh, or run under air-sim"


def missing_program() -> str | None:
    """Why the program cannot be used here."""
    return None if shutil.which(PROGRAM) else f"{PROGRAM} is not on PATH"


def compile_air(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    soc: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Path:
    """Compiles an `.air` file with `atc`; gives the path of the `.om` file, which is complete or not there at all.

    Args:
        model: the file that `dynamo_export` wrote.
        output: where the offline model goes; `.om` is added where it is missing.
        soc: the chip, for example `"Ascend910B1"`; None asks the device of this machine.
        options: options of `atc` without their dashes, for example `{"input_shape": "x:2,4"}`.
    """
    if reason := missing_program():
        raise EngineUnavailableError(f"{model} cannot be compiled: {reason}", advice=ADVICE)
    if own := sorted(OURS.intersection(options or {})):
        raise EngineError(
            f"options of compile_air has {', '.join(own)}, which it sets itself",
            advice="the arguments model, output and soc are for these",
        )
    source, target = Path(model).absolute(), Path(output).absolute()
    if not os.fspath(output) or target.is_dir():
        raise EngineError(
            f"output is {os.fspath(output)!r}, a folder", advice="name the file in it, such as out/net.om"
        )
    if not source.is_file():
        raise EngineError(
            f"{model} is not a file", advice="export a model first: air_backend.dynamo_export(...)"
        )
    if target.suffix != ".om":
        target = target.with_name(f"{target.name}.om")
    from air_geir.file import with_whole_paths  # only here: loading a model needs neither
    from air_graph import files

    files.folder(target.parent, "the folder of the offline model")
    with contextlib.ExitStack() as stack:
        with files.writing(target, "the offline model"):
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir=target.parent, prefix=".atc."))
        made, given = Path(folder) / target.stem, source
        whole = with_whole_paths(source.read_bytes())
        if whole is not None:  # the program runs in a folder of its own
            given = files.write_bytes(Path(folder) / source.name, whole, "the model for the compiler")
        told = {"framework": "1", "model": str(given), "output": str(made), "soc_version": soc or soc_name()}
        _run({**told, **(options or {})}, Path(folder), source)
        written = sorted(Path(folder).glob("*.om"))
        if len(written) != 1:  # its name ends with the system where that is another one
            raise EngineError(
                f"{PROGRAM} ended without an error and without an offline model of {source}",
                advice="run it by hand to see what it writes: the disk may be full",
            )
        written[0].replace(target)
    return target


def _run(options: Mapping[str, str], folder: Path, source: Path) -> None:
    command = [PROGRAM, *(f"--{name}={value}" for name, value in options.items())]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise EngineUnavailableError(
            f"{PROGRAM} cannot be started: {error.strerror or error}",
            advice="check the installation of CANN's toolkit",
        ) from error
    if done.returncode == 0:
        return
    said = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    raise CompilationFailed(
        f"{PROGRAM} {_ending(done.returncode)}: {said[-1] if said else 'it said nothing'}",
        where="\n          ".join([str(source), *said[-8:-1]]),
        advice="free memory or compile on a larger machine: the system kills programs that take too much"
        if done.returncode == -signal.SIGKILL
        else "air_geir.verify names broken rules of the graph; --log=debug makes the program say more",
    )


def _ending(code: int) -> str:
    if code >= 0:
        return f"failed with code {code}"
    known = {int(number): number.name for number in signal.Signals}
    return f"was killed by {known.get(-code, f'signal {-code}')}"
