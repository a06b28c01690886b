"""Stand-in for atc: compiles an .air file into an offline model that this simulator loads.

    atc --framework=1 --model=classifier.air --output=classifier --soc_version=Ascend910B1 [--input_shape="x:2,4"]

Options are those of CANN's program, as far as they mean something for an .air file; any other is refused, as there.
Those that choose how CANN compiles are checked and change nothing here: there are no device kernels to choose.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

_PASSED_BY = {
    "input_format": ("ND", "NCHW", "NHWC"),
    "log": ("debug", "info", "warning", "error", "null"),
    "deterministic": ("0", "1"),
    "op_select_implmode": ("high_precision", "high_performance"),
    "enable_single_stream": ("true", "false"),
    "oo_level": ("O1", "O3"),
    "oo_constant_folding": ("true", "false"),
    "oo_dead_code_elimination": ("true", "false"),
    "host_env_os": None,
    "host_env_cpu": None,
    "aicore_num": None,
    "optimization_switch": None,
    "precision_mode": None,
    "precision_mode_v2": None,
}
"""Options that need no work here, with the values they take."""


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line like any other failure."""

    def error(self, message: str) -> NoReturn:
        _fail(message)


def _fail(message: str) -> NoReturn:
    print(f"ATC run failed: {message}", file=sys.stderr)
    raise SystemExit(1)


def _parser() -> _Parser:
    parser = _Parser(prog="atc", allow_abbrev=False)
    parser.add_argument("--framework", required=True, choices=("1",), help="1: an .air file")
    parser.add_argument("--model", required=True, type=Path, help="the .air file")
    parser.add_argument("--output", required=True, type=Path, help="the offline model, without .om")
    parser.add_argument("--soc_version", required=True, help="the chip")
    parser.add_argument("--input_shape", default="", help="sizes of inputs: name:size,size;name:size")
    parser.add_argument("--mode", default="0", choices=("0",), help="0: an offline model")
    parser.add_argument("--fusion_switch_file", type=Path, help="which fusions are off")
    for name, values in _PASSED_BY.items():
        parser.add_argument(f"--{name}", choices=values)
    return parser


def _record(words: Sequence[str]) -> None:
    """Appends the options to the file that AIR_SIM_GE_RECORD names."""
    import json

    place = os.environ.get("AIR_SIM_GE_RECORD")
    if place:
        told = dict(word.removeprefix("--").split("=", 1) for word in words if "=" in word)
        with open(place, "a", encoding="utf-8") as file:
            file.write(json.dumps({"call": "atc", "graph": -1, "options": told}) + "\n")


def main(argv: Sequence[str]) -> int:
    """Compiles as the words say; 0 when the file is written."""
    arguments = _parser().parse_args(argv)
    if not arguments.model.is_file():
        _fail(f"--model {arguments.model} is not a file")
    if arguments.fusion_switch_file is not None and not arguments.fusion_switch_file.is_file():
        _fail(f"--fusion_switch_file {arguments.fusion_switch_file} is not a file")
    if not arguments.output.absolute().parent.is_dir():
        _fail(f"--output {arguments.output}: there is no such folder")
    _record(argv)
    compile_file = ctypes.CDLL(str(Path(os.environ["AIR_SIM_LIBRARIES"]) / "libge_runner.so")).air_sim_atc
    compile_file.restype = ctypes.c_char_p
    os.chdir(arguments.model.absolute().parent)  # weights beside the model are named relative to it
    target = Path(f"{arguments.output.absolute()}.om")
    words = (arguments.model.absolute(), arguments.soc_version, arguments.input_shape, target)
    refused = compile_file(*(str(word).encode() for word in words))
    if refused is not None:
        _fail(refused.decode(errors="replace"))
    print("ATC run success")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
