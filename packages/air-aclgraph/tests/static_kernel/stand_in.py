"""A stand-in for CANN made of shell scripts, so that every stage meets a real process, real files and real faults.

The compiler and the installers it writes obey variables of the environment: STAND_IN_EXIT, STAND_IN_SLEEP,
STAND_IN_NOTHING, STAND_IN_FULL for the compiler; STAND_IN_INSTALL_SLEEP and STAND_IN_INSTALL_FAIL for installers,
which fail or sleep after half of their kernels.  Calls are counted in files beside the tools.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from air_aclgraph.static_kernel._toolkit import shared_library

COMPILER = """#!/bin/sh
echo "$@" >> "{tools}/compiled"
while [ $# -gt 0 ]; do
  case "$1" in
    -p) dump="$2"; shift ;;
    -o) out="$2"; shift ;;
  esac
  shift
done
echo "the compiler speaks"
[ -z "$STAND_IN_SLEEP" ] || sleep "$STAND_IN_SLEEP"
[ -z "$STAND_IN_FULL" ] || {{ cat /proc/version > /dev/full || exit 28; }}
[ -z "$STAND_IN_EXIT" ] || {{ echo "an arranged failure" >&2; exit "$STAND_IN_EXIT"; }}
[ -z "$STAND_IN_NOTHING" ] || exit 0
count=$(ls "$dump" | wc -l)
name="static_kernel_$(date +%Y%m%d%H%M%S%N)_$$"
cat > "$out/$name.run" <<END
#!/bin/sh
echo "\\$@" >> "{tools}/installed"
target="$ASCEND_OPP_PATH"
for word in "\\$@"; do case "\\$word" in --install-path=*) target="\\${{word#--install-path=}}" ;; esac; done
place="\\$target/static_kernel/ai_core/$name"
mkdir -p "\\$place/kernels"
half=$(( (count + 1) / 2 ))
i=0
while [ \\$i -lt $count ]; do
  if [ \\$i -eq \\$half ]; then
    [ -z "\\$STAND_IN_INSTALL_SLEEP" ] || sleep "\\$STAND_IN_INSTALL_SLEEP"
    [ -z "\\$STAND_IN_INSTALL_FAIL" ] || {{ echo "half of it" >&2; exit "\\$STAND_IN_INSTALL_FAIL"; }}
  fi
  echo $count > "\\$place/kernels/\\$i"
  i=\\$((i + 1))
done
printf '#!/bin/sh\\nrm -rf "%s"\\n' "\\$place" > "\\$place/uninstall.sh"
chmod +x "\\$place/uninstall.sh"
END
chmod +x "$out/$name.run"
"""


def lay_out(folder: Path) -> None:
    """The tools in a folder, the library beside them, and the environment that names both."""
    (folder / "opp").mkdir(parents=True)
    compiler = folder / "op_compiler"
    compiler.write_text(COMPILER.format(tools=folder), encoding="utf-8")
    compiler.chmod(0o755)


def lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


@dataclass
class StandIn:
    """The calls of CANN: dumps what `call` ran, and counts the kernels of each selection."""

    folder: Path
    soc: str = "Ascend910B1"
    private: bool = False
    quiet: bool = False
    flags: tuple[str, ...] = ()
    cann: str = "8.5.0"
    busy: str | None = None
    dumping: Path | None = None
    selections: list[int] = field(default_factory=list)

    def versions(self) -> tuple[object, ...]:
        return (self.cann, self.soc)

    def start_dump(self, folder: Path) -> None:
        self.dumping = folder

    def stop_dump(self) -> None:
        self.dumping = None

    def library(self) -> Path:
        return shared_library(os.environ)

    def conflict(self) -> str | None:
        return self.busy

    def reselect(self, private: Path | None) -> None:
        """Counts kernels; a package that is not whole is what must never be seen."""
        root = private if private is not None else self.library()
        kernels = 0
        for place in sorted((root / "static_kernel" / "ai_core").glob("*/kernels")):
            found = list(place.iterdir())
            assert len(found) == int(found[0].read_text()), f"{place} was read half-written"
            kernels += len(found)
        self.selections.append(kernels)

    def model(self, *operators: str, dynamic: Sequence[str] = ()) -> Callable[[], tuple[str, ...]]:
        """A run of a model made of these operators."""

        def run() -> tuple[str, ...]:
            for name in (*operators, *dynamic):
                self._dump(name, compilable=name not in dynamic)
            return operators

        return run

    def _dump(self, name: str, *, compilable: bool) -> None:
        if self.dumping is None:
            return
        for suffix in ("", "_debug", *(("_opcompile",) if compilable else ())):
            folder = self.dumping / f"{os.getpid()}{suffix}"
            folder.mkdir(exist_ok=True)
            (folder / f"{name}.json").write_text(json.dumps({"op": name.partition("~")[0]}))

    @property
    def compilations(self) -> int:
        return len(lines(self.folder / "compiled"))

    @property
    def installations(self) -> int:
        return len(lines(self.folder / "installed"))

    def installed_packages(self) -> list[str]:
        return sorted(p.name for p in (self.folder / "opp" / "static_kernel" / "ai_core").glob("*"))
