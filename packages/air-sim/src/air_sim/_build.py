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
from collections import Counter
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


_EMPTY = (
    "acl_op_compiler",
    "graph",
    "acl_tdt_channel",
    "fmk_parser",
    "ascend_protobuf",
    "runtime",
    "atb",
    "ascend_dump",
    "ascendsk",
)
"""Libraries that torch_npu names but whose functions live in libascendcl: they only have to exist."""

_FLAGS = ("-std=c++17", "-O1", "-g0", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wno-unused-function")
_PARTS = {"runtime": False, "hccl": True, "ge": True, "opapi": True, "static_kernel": False}
"""Folder of sources -> whether it is written against libtorch."""
_PRECOMPILED = {"opapi", "ge"}
"""Folders whose sources spend most of their time in libtorch's headers, and share them precompiled."""
_WORTH_PRECOMPILING = 4
"""From so many sources on, precompiling their headers first is quicker."""
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
        names = ("ascendcl", *_EMPTY, "hccl", "opapi", "nnopbase", "ge_runner")
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
class _Compiler:
    """Compiles one source at a time, or finds that it has been compiled before."""

    install: Install
    objects: Path

    def _flags(self, source: Path) -> list[str]:
        flags = [*_FLAGS, *(f"-I{folder}" for folder in (NATIVE / "include", source.parent))]
        headers, aten = self.install.headers
        flags += [f"-isystem{headers}", f"-isystem{self.install.torch_npu / 'include'}"]
        if _PARTS[source.parent.name] and _OLD_ABI not in source.name:
            flags += [f"-isystem{aten}", f"-isystem{aten / 'torch/csrc/api/include'}"]
        if (
            source.parent.name == "ge"
        ):  # the wheel's headers declare these classes without a visibility of their own
            flags.append("-fvisibility=default")
        if _OLD_ABI in source.name:
            flags.append("-D_GLIBCXX_USE_CXX11_ABI=0")
        return flags

    def target(self, source: Path, salt: bytes = b"") -> Path:
        """Where the object of a source is, or will be."""
        made_of = [file.read_bytes() for file in _included(source)]
        # Folders do not count: what is in them is known by the versions and by the contents.
        flags = [flag for flag in self._flags(source) if not flag.startswith(("-I", "-isystem"))]
        settings = [source.parent.name, *flags]
        key = _digest([self.install.key.encode(), " ".join(settings).encode(), *made_of, salt])
        return self.objects / f"{source.parent.name}-{source.stem}-{key}.o"

    def compile(self, source: Path, extra: Sequence[str] = (), salt: bytes = b"") -> Path:
        target = self.target(source, salt)
        if not target.exists():
            log.info("compiling %s", source.relative_to(NATIVE))
            partial = target.with_suffix(f".{os.getpid()}.o")
            _run(["g++", *self._flags(source), *extra, "-c", str(source), "-o", str(partial)])
            partial.rename(target)
        target.touch()
        return target

    def precompile(self, part: str, folder: Path) -> list[str]:
        """Compiles libtorch's headers with the flags of a part; gives the flags that make a source use them."""
        log.info("precompiling libtorch's headers for %s", part)
        place = folder / part
        place.mkdir()
        header = place / _HEADERS.name
        shutil.copy(_HEADERS, header)
        _run(
            [
                "g++",
                *self._flags(NATIVE / part / "any.cpp"),
                "-x",
                "c++-header",
                str(header),
                "-o",
                f"{header}.gch",
            ]
        )
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
    operators = [*objects["opapi"], *objects["static_kernel"]]
    beneath = ("ascendcl", "hccl", "torch_cpu", "c10")
    _link(folder, "opapi", operators, beneath, torch)
    _link(folder, "ge_runner", objects["ge"], ("opapi", *beneath), torch)
    # torch_npu asks it for aclDestroyAclOpExecutor, which is the operators'.
    _link(folder, "nnopbase", (), ("opapi",), torch)


def _compile_sources(
    compiler: _Compiler, sources: Sequence[Path], folder: Path, jobs: int
) -> dict[Path, Path]:
    """Source -> object, several at a time, in the given order."""
    missing = Counter(
        s.parent.name for s in sources if _OLD_ABI not in s.name and not compiler.target(s).exists()
    )
    with tempfile.TemporaryDirectory(dir=folder) as headers, ThreadPoolExecutor(jobs) as pool:
        ready = {
            part: pool.submit(compiler.precompile, part, Path(headers))
            for part in sorted(_PRECOMPILED)
            if missing[part] >= _WORTH_PRECOMPILING
        }

        def compiled(source: Path) -> Path:
            headers_of = ready.get(source.parent.name) if _OLD_ABI not in source.name else None
            return compiler.compile(source, extra=headers_of.result() if headers_of else ())

        return dict(zip(sources, pool.map(compiled, sources), strict=True))


def _compile_all(install: Install, folder: Path, jobs: int) -> None:
    objects_folder = cache_folder() / "objects"
    objects_folder.mkdir(parents=True, exist_ok=True)
    compiler = _Compiler(install, objects_folder)
    stub_source = NATIVE / "runtime" / "stubs.cpp"
    sources = {part: sorted((NATIVE / part).glob("*.cpp")) for part in _PARTS}
    # The largest first: the last object should not be the one that everybody waits for.
    order = sorted(
        (s for part in sources.values() for s in part if s != stub_source), key=lambda s: -s.stat().st_size
    )
    compiled = _compile_sources(compiler, order, folder, jobs)
    objects = {part: [compiled[s] for s in files if s in compiled] for part, files in sources.items()}
    missing = stub_list(install, compiled.values())
    (folder / "missing.inc").write_text(missing)
    stubs = compiler.compile(stub_source, extra=(f"-I{folder}",), salt=missing.encode())
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
