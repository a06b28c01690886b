"""Compiles the libraries of air-sim against the installed torch and torch_npu, into a cache.

Objects are kept by the hash of everything they are made of, so an edit recompiles what includes it, and environments
with the same versions share them; a finished set of libraries has a folder of its own, named after versions, sources
and the torch it is linked to, and is only ever renamed into place: processes that start at the same time wait for one
build and never see half of one.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from air_config.trust import why_untrusted
from air_sim._install import Install, find_install
from air_sim._symbols import stub_list
from air_sim.errors import BuildFailed, MissingTool, UnusableCache

log = logging.getLogger(__name__)

NATIVE = Path(__file__).parent / "native"
_HEADERS = NATIVE / "include" / "air_sim" / "precompiled.h"
_STUBS = NATIVE / "runtime" / "stubs.cpp"


_EMPTY = (
    "acl_op_compiler",
    "graph",
    "acl_tdt_channel",
    "fmk_parser",
    "ascend_protobuf",
    "runtime",
    "ascend_dump",
    "ascendsk",
)
"""Libraries that torch_npu names but whose functions live in libascendcl: they only have to exist."""

_FLAGS = ("-std=c++20", "-O1", "-g0", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wno-unused-function")
_PARTS = {"runtime": False, "hccl": True, "ge": True, "opapi": True, "atb": True, "static_kernel": False}
"""Folder of sources -> whether it is written against libtorch."""
_PRECOMPILED = {"opapi", "ge", "atb"}
"""Folders whose sources spend most of their time in libtorch's headers, and share them precompiled."""
_WORTH_PRECOMPILING = 3
"""From so many units on, precompiling their headers first is quicker."""
_VISIBLE = {"ge"}
"""Folders that compile classes of the wheel's headers, which declare them without a visibility of their own."""
_TOGETHER = 8
"""So many sources of a folder are one unit: what each of them would cost by itself is mostly libtorch's templates."""
_OLD_ABI = "_oldabi"
"""Part of the name of the sources that are compiled with the strings of the old C++ library."""
_HEADER_SUFFIXES = (".h", ".inc")
_INCLUDE = re.compile(rb'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)


@dataclass(frozen=True)
class Libraries:
    """A finished set of compiled libraries."""

    folder: Path
    install: Install

    @property
    def preload(self) -> tuple[Path, ...]:
        """The files to load before torch_npu, in order."""
        names = ("ascendcl", *_EMPTY, "hccl", "opapi", "atb", "nnopbase", "ge_runner")
        return tuple(self.folder / f"lib{name}.so" for name in names)


def cache_folder() -> Path:
    """Where compiled libraries are kept: AIR_SIM_CACHE, or air-sim in the user's cache folder."""
    if chosen := os.environ.get("AIR_SIM_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "air-sim"


def source_files() -> list[Path]:
    """Every native source and header, in a fixed order."""
    return sorted(p for p in NATIVE.rglob("*") if p.suffix in (".cpp", *_HEADER_SUFFIXES) and p.is_file())


def _digest(parts: Sequence[bytes]) -> str:
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(len(part).to_bytes(8, "little"))
        hasher.update(part)
    return hasher.hexdigest()[:20]


def _libraries_digest(install: Install) -> str:
    """Of every source, of how they are built, and of the torch that the libraries are linked to by its folder."""
    parts = [
        part
        for file in source_files()
        for part in (str(file.relative_to(NATIVE)).encode(), file.read_bytes())
    ]
    recipe = [Path(__file__).with_name(name).read_bytes() for name in ("_build.py", "_symbols.py")]
    return _digest([*parts, *recipe, str(install.torch_libraries).encode()])


def _included(source: Path) -> list[Path]:
    """A source and those of our own files that it includes, directly or not, each once."""
    found: dict[Path, None] = {}
    waiting = [source]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found[file] = None
        for name in _INCLUDE.findall(file.read_bytes()):
            places = (file.parent / name.decode(), NATIVE / "include" / name.decode())
            waiting += [place.resolve() for place in places if place.is_file()]
    return list(found)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise BuildFailed(" ".join(command), done.stdout.strip())
    if done.stdout.strip():
        log.warning("%s", done.stdout.strip())


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _trusted(libraries: Libraries) -> Libraries:
    """The libraries, if nobody else can have put them there: they run in this process."""
    for path in libraries.preload:
        if refusal := why_untrusted(path):
            raise UnusableCache(str(cache_folder()), str(refusal))
    return libraries


@dataclass(frozen=True)
class _Unit:
    """Sources of one folder that are compiled as one: a name that a file keeps to itself is unique in its folder."""

    sources: tuple[Path, ...]

    @property
    def part(self) -> str:
        return self.sources[0].parent.name

    @property
    def name(self) -> str:
        return f"{self.part}-{self.sources[0].stem}"

    @property
    def text(self) -> str:
        included = "".join(f'#include "{source}"\n' for source in self.sources)
        if self.part not in _VISIBLE:
            return included
        return f"#pragma GCC visibility push(default)\n{included}#pragma GCC visibility pop\n"

    @property
    def old_abi(self) -> bool:
        return any(_OLD_ABI in source.name for source in self.sources)


def _units(part: str) -> list[_Unit]:
    """What a folder is compiled from, those of the old strings apart."""
    sources = [source for source in sorted((NATIVE / part).glob("*.cpp")) if source != _STUBS]
    apart = [source for source in sources if _OLD_ABI in source.name]
    others = [source for source in sources if source not in apart]
    chunks = (others[first : first + _TOGETHER] for first in range(0, len(others), _TOGETHER))
    return [*map(_Unit, map(tuple, chunks)), *(_Unit((source,)) for source in apart)]


@dataclass(frozen=True)
class _Compiler:
    """Compiles one unit at a time, or finds that it has been compiled before."""

    install: Install
    objects: Path

    def _flags(self, part: str, old_abi: bool = False) -> list[str]:
        flags = [*_FLAGS, *(f"-I{folder}" for folder in (NATIVE / "include", NATIVE / part))]
        headers, aten = self.install.headers
        flags += [f"-isystem{headers}", f"-isystem{self.install.torch_npu / 'include'}"]
        if _PARTS[part] and not old_abi:
            flags += [f"-isystem{aten}", f"-isystem{aten / 'torch/csrc/api/include'}"]
        return [*flags, "-D_GLIBCXX_USE_CXX11_ABI=0"] if old_abi else flags

    def target(self, unit: _Unit, salt: bytes = b"") -> Path:
        """Where the object of a unit is, or will be."""
        made_of = [file.read_bytes() for source in unit.sources for file in _included(source)]
        # Folders do not count: what is in them is known by the versions and by the contents.
        flags = [
            flag for flag in self._flags(unit.part, unit.old_abi) if not flag.startswith(("-I", "-isystem"))
        ]
        settings = [unit.part, f"visible={unit.part in _VISIBLE}", *flags]
        key = _digest([self.install.key.encode(), " ".join(settings).encode(), *made_of, salt])
        return self.objects / f"{unit.name}-{key}.o"

    def compile(self, unit: _Unit, extra: Sequence[str] = (), salt: bytes = b"") -> Path:
        target = self.target(unit, salt)
        if not target.exists():
            log.info("compiling %s", ", ".join(str(source.relative_to(NATIVE)) for source in unit.sources))
            partial, text = (target.with_suffix(f".{os.getpid()}.{kind}") for kind in ("o", "cpp"))
            text.write_text(unit.text)
            flags = self._flags(unit.part, unit.old_abi)
            try:
                _run(["g++", *flags, *extra, "-c", str(text), "-o", str(partial)])
            finally:
                text.unlink()
            partial.rename(target)
        target.touch()
        return target

    def precompile(self, folder: Path) -> list[str]:
        """Compiles libtorch's headers once for all folders that share them; gives the flags that make a unit do so."""
        log.info("precompiling libtorch's headers")
        header = folder / _HEADERS.name
        shutil.copy(_HEADERS, header)
        flags = self._flags(min(_PRECOMPILED))
        _run(["g++", *flags, "-x", "c++-header", str(header), "-o", f"{header}.gch"])
        return ["-include", str(header)]


def _link(
    folder: Path, name: str, objects: Sequence[Path], libraries: Sequence[str], search: Sequence[Path]
) -> None:
    paths = [flag for path in search for flag in (f"-L{path}", f"-Wl,-rpath,{path}")]
    wanted = [f"-l{library}" for library in libraries]
    soname = f"lib{name}.so"
    _run(
        ["g++", "-shared", f"-Wl,-soname,{soname}", "-Wl,--no-as-needed", "-o", str(folder / soname)]
        + [str(o) for o in objects]
        + [f"-L{folder}", "-Wl,-rpath,$ORIGIN", *paths, *wanted, "-lpthread", "-lrt"]
    )


def _assemble(folder: Path, objects: dict[str, list[Path]], stubs: Path, install: Install) -> None:
    torch = [install.torch_libraries]
    _link(folder, "ascendcl", [*objects["runtime"], stubs], (), ())
    for name in _EMPTY:
        _link(folder, name, (), ("ascendcl",), ())
    _link(folder, "hccl", objects["hccl"], ("ascendcl", "c10"), torch)
    operators = [*objects["opapi"], *objects["atb"], *objects["static_kernel"]]
    beneath = ("ascendcl", "hccl", "torch_cpu", "c10")
    _link(folder, "opapi", operators, beneath, torch)
    _link(folder, "ge_runner", objects["ge"], ("opapi", *beneath), torch)
    # These two are asked for functions that are the operators': torch_npu wants nnopbase to destroy an executor.
    _link(folder, "atb", (), ("opapi",), torch)
    _link(folder, "nnopbase", (), ("opapi",), torch)


def _compile_units(compiler: _Compiler, units: Sequence[_Unit], folder: Path, jobs: int) -> dict[_Unit, Path]:
    """Unit -> object, several at a time, in the given order."""
    sharing = {unit for unit in units if unit.part in _PRECOMPILED and not unit.old_abi}
    missing = [unit for unit in sharing if not compiler.target(unit).exists()]
    with tempfile.TemporaryDirectory(dir=folder) as headers, ThreadPoolExecutor(jobs) as pool:
        worth = len(missing) >= _WORTH_PRECOMPILING
        ready = pool.submit(compiler.precompile, Path(headers)) if worth else None

        def compiled(unit: _Unit) -> Path:
            return compiler.compile(unit, extra=ready.result() if ready and unit in sharing else ())

        # what needs no precompiled headers first: it is compiled while they are
        order = sorted(units, key=lambda unit: unit in sharing)
        return dict(zip(order, pool.map(compiled, order), strict=True))


def _compile_all(install: Install, folder: Path, jobs: int) -> None:
    objects_folder = cache_folder() / "objects"
    objects_folder.mkdir(parents=True, exist_ok=True)
    compiler = _Compiler(install, objects_folder)
    units = {part: _units(part) for part in _PARTS}
    compiled = _compile_units(compiler, [unit for part in units.values() for unit in part], folder, jobs)
    objects = {part: [compiled[unit] for unit in own] for part, own in units.items()}
    missing = stub_list(install, compiled.values())
    (folder / "missing.inc").write_text(missing)
    stubs = compiler.compile(_Unit((_STUBS,)), extra=(f"-I{folder}",), salt=missing.encode())
    _assemble(folder, objects, stubs, install)


def build(*, force: bool = False, jobs: int | None = None) -> Libraries:
    """The compiled libraries for the running interpreter, building them when the cache has none."""
    for tool in ("g++", "nm"):
        if shutil.which(tool) is None:
            raise MissingTool(tool)
    install = find_install()
    target = cache_folder() / f"{install.key}-{_libraries_digest(install)}"
    try:
        if not target.is_dir() or force:
            _build(target, install, force, jobs)
        return _trusted(Libraries(target, install))
    except OSError as error:
        raise UnusableCache(str(cache_folder()), error.strerror or str(error)) from error


def _build(target: Path, install: Install, force: bool, jobs: int | None) -> None:
    with _locked(cache_folder()):
        if target.is_dir() and not force:
            return
        if force:
            shutil.rmtree(target, ignore_errors=True)
            shutil.rmtree(cache_folder() / "objects", ignore_errors=True)
        for left in cache_folder().glob("partial-*"):  # by a build that was killed
            shutil.rmtree(left, ignore_errors=True)
        log.warning("air-sim: building the software CANN for %s (once; minutes)", install.key)
        partial = Path(tempfile.mkdtemp(dir=cache_folder(), prefix="partial-"))
        try:
            _compile_all(install, partial, jobs or min(2, os.cpu_count() or 1))
            partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
