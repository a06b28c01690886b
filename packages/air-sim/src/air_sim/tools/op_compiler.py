"""Stand-in for op_compiler: turns dumped operator calls into a self-extracting installer of static kernels.

    op_compiler -p <folder of JSON files> -v <SoC> -j <jobs> -o <output folder> [...]

There is no device binary to make: a "kernel" is the description of the call it is for.  The rest is real: reading the
dump, the installer, its place below the operator library, uninstalling.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from air_sim.errors import CompileError

_INSTALLER = """#!/bin/sh
# Installs static kernels: [--install-path=<folder>] [-q]
set -e
target="${{ASCEND_OPP_PATH:?ASCEND_OPP_PATH is not set}}"
quiet=
for word in "$@"; do
  case "$word" in
    --install-path=*) target="${{word#--install-path=}}" ;;
    -q|--quiet) quiet=1 ;;
    *) echo "{name}.run: unknown option $word" >&2; exit 2 ;;
  esac
done
place="$target/static_kernel/ai_core/{name}"
mkdir -p "$place/kernels"
installed=0
kernel() {{
  if [ "$installed" = "${{AIR_SIM_INSTALL_FAIL:-0}}" ] && [ "$installed" != 0 ]; then
    echo "{name}.run: arranged failure after $installed of {count} kernels (AIR_SIM_INSTALL_FAIL)" >&2
    exit 1
  fi
  sleep "${{AIR_SIM_INSTALL_DELAY_S:-0}}"
  echo "$2" | base64 -d > "$place/kernels/$1.json"
  installed=$((installed + 1))
}}
{files}
cat > "$place/uninstall.sh" <<'END'
#!/bin/sh
rm -rf "$(cd "$(dirname "$0")" && pwd)"
END
chmod +x "$place/uninstall.sh"
[ -n "$quiet" ] || echo "installed {count} static kernels in $place"
"""


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="op_compiler")
    parser.add_argument("-p", dest="dump", required=True, type=Path, help="folder of dumped operator calls")
    parser.add_argument("-v", dest="soc", required=True, help="SoC name")
    parser.add_argument("-j", dest="jobs", type=int, default=1, help="compilations at a time")
    parser.add_argument("-o", dest="output", required=True, type=Path, help="folder for the installer")
    parser.add_argument("-l", dest="level", default="error", help="log level")
    parser.add_argument("-f", dest="force", default="false", choices=("true", "false"))
    parser.add_argument("--enable_super_kernel", action="store_true")
    parser.add_argument("--super_kernel_options", default="")
    return parser.parse_args(argv)


def _number(switch: str) -> float:
    return float(os.environ.get(f"AIR_SIM_{switch}") or 0)


def _compile(file: Path, soc: str) -> str:
    """The "kernel" of one call."""
    try:
        call = json.loads(file.read_text(encoding="utf-8"))
        kernel = {"soc": soc, "op": call["op"], "inputs": call["inputs"], "outputs": call["outputs"]}
    except (ValueError, KeyError) as problem:
        raise CompileError(f"{file}: not a dumped operator call ({problem})") from problem
    return json.dumps({**kernel, "attrs": call.get("attrs", [])}, sort_keys=True)


def _compile_all(files: Sequence[Path], soc: str) -> list[str]:
    fail_after = int(_number("OP_COMPILER_FAIL"))
    kernels = []
    for done, file in enumerate(files):
        if fail_after and done >= fail_after:
            raise CompileError(
                f"arranged failure after {done} of {len(files)} operators (AIR_SIM_OP_COMPILER_FAIL)"
            )
        kernels.append(_compile(file, soc))
    return kernels


def _installer(name: str, kernels: Sequence[str]) -> str:
    lines = [
        f"kernel {index} {base64.b64encode(kernel.encode()).decode()}" for index, kernel in enumerate(kernels)
    ]
    return _INSTALLER.format(name=name, files="\n".join(lines), count=len(kernels))


def _record(argv: Sequence[str], operators: int, status: int) -> None:
    """One JSON line per call, so that tests can count how often the compiler ran."""
    if path := os.environ.get("AIR_SIM_OP_COMPILER_LOG"):
        with Path(path).open("a", encoding="utf-8") as log:
            log.write(json.dumps({"arguments": list(argv), "operators": operators, "status": status}) + "\n")


def main(argv: Sequence[str]) -> int:
    """Compiles a dump; the exit status is 0 when an installer was written."""
    arguments = _arguments(argv)
    files = sorted(arguments.dump.glob("*.json"))
    time.sleep(_number("OP_COMPILER_DELAY_S"))
    try:
        if not files:
            raise CompileError(f"no operator calls in {arguments.dump}")
        kernels = _compile_all(files, arguments.soc)
    except CompileError as problem:
        print(f"op_compiler: {problem}", file=sys.stderr)
        _record(argv, len(files), 1)
        return 1
    name = f"static_kernel_{time.strftime('%Y%m%d%H%M%S')}_{os.getpid()}"
    arguments.output.mkdir(parents=True, exist_ok=True)
    target = arguments.output / f"{name}.run"
    target.write_text(_installer(name, kernels), encoding="utf-8")
    target.chmod(0o755)
    _record(argv, len(files), 0)
    print(f"op_compiler: {len(kernels)} static kernels for {arguments.soc}: {target}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
