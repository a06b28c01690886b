"""The library of the builtins is loaded only from where nobody else can have put it, and survives any folder."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from air_aclgraph import _addresses, native

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a compiler")

EVIL = 'extern "C" __attribute__((constructor)) void begin() {{ fclose(fopen("{mark}", "w")); }}'


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """The library is looked for anew, and afterwards again in its own place."""
    native.library.cache_clear()
    yield
    native.library.cache_clear()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Torch's cache folder, and that of temporary files."""
    monkeypatch.setattr(native, "cache_dir", lambda: str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "private"))
    (tmp_path / "private").mkdir(mode=0o700)
    return tmp_path / "cache"


def planted(place: Path, mark: Path) -> Path:
    """A library under the name that ours will have, which tells when it is loaded."""
    target = place / "air_aclgraph" / f"builtins_{native._digest()}.so"
    target.parent.mkdir(parents=True)
    source = mark.with_suffix(".cpp")
    source.write_text("#include <cstdio>\n" + EVIL.format(mark=mark))
    subprocess.run(["g++", "-shared", "-fPIC", str(source), "-o", str(target)], check=True)
    return target


@pytest.mark.parametrize("hole", ["file", "folder", "parent", "link"])
def test_a_library_that_somebody_else_may_have_put_there_is_not_loaded(
    hole: str, place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mark = tmp_path / "mark"
    target = planted(place, mark)
    if hole == "link":
        shared = tmp_path / "shared"
        shared.mkdir()
        target.rename(shared / "evil.so")
        target.symlink_to(shared / "evil.so")
        shared.chmod(0o777)
    else:
        {"file": target, "folder": target.parent, "parent": place}[hole].chmod(0o777)
    assert native.library() is not None
    assert not mark.exists(), "its code ran"
    assert "others may write" in caplog.text
    assert list((tmp_path / "private").iterdir()) == []


def test_a_library_of_this_user_is_loaded_and_compiled_once(
    place: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert native.library() is not None
    (made,) = (place / "air_aclgraph").iterdir()
    before = made.stat().st_mtime_ns
    native.library.cache_clear()
    monkeypatch.setattr(native, "_build", None)
    assert native.library() is not None
    assert made.stat().st_mtime_ns == before
    assert not caplog.records


def _full(*args: Any, **kwargs: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "the cache")


@pytest.mark.parametrize("trouble", ["file for a folder", "read-only", "full", "damaged"])
def test_a_folder_that_cannot_be_used_costs_a_compilation_not_the_call(
    trouble: str,
    place: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if trouble == "file for a folder":
        place.write_text("")
    elif trouble == "damaged":
        target = planted(place, tmp_path / "mark")
        target.write_bytes(target.read_bytes()[:100])
    else:
        real = Path.mkdir

        def refusing(self: Path, *args: Any, **kwargs: Any) -> None:
            code = errno.ENOSPC if trouble == "full" else errno.EROFS
            if str(self).startswith(str(place)):
                raise OSError(code, os.strerror(code), str(self))
            real(self, *args, **kwargs)

        monkeypatch.setattr(Path, "mkdir", refusing)
    assert native.library() is not None
    assert "compiled for this process alone" in caplog.text
    assert list((tmp_path / "private").iterdir()) == []


def test_without_a_compiler_calls_do_without(
    place: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert native.library() is None
    assert "no C++ compiler" in caplog.text


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_each_python_has_what_the_builtins_call(version: str) -> None:
    """Undeclared, one missing function costs the whole library: every call does without it."""
    declared = (native._FOLDER / "python.h").read_text()
    names = re.findall(r"^(?!__attribute__)\S.*?\b(Py\w+)\(.*\);", declared, re.MULTILINE)
    assert "PyObject_CallObject" in names
    asked = f"import ctypes; print([one for one in {names} if not hasattr(ctypes.pythonapi, one)])"
    interpreter = shutil.which(f"python{version}")
    ran = interpreter and subprocess.run(
        [interpreter, "-c", asked], capture_output=True, text=True, check=False
    )
    if not ran or ran.returncode:
        pytest.skip(f"no Python {version} is here")
    assert ran.stdout.strip() == "[]"


def test_a_call_by_a_tuple_is_the_call(tmp_path: Path) -> None:
    """Python 3.10 has no function for a call without one."""
    renamed = (native._FOLDER / "python.h").read_text().replace("PyObject_Vectorcall", "PyObject_NotThere")
    (tmp_path / "python.h").write_text(renamed)
    for source in native.SOURCES:
        shutil.copy(source, tmp_path)
    sources = [str(tmp_path / source.name) for source in native.SOURCES]
    library = tmp_path / "builtins.so"
    subprocess.run(["g++", "-O2", "-shared", "-fPIC", *sources, "-o", str(library)], check=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(native, "library", lambda: ctypes.PyDLL(str(library)))
        tests = _addresses.compiled()
        assert tests is not None
        tensors = [torch.ones(2) for _ in range(8)]
        same = tests(range(8), tensors)
        assert same(*tensors)
        assert not same(*tensors[:-1], torch.ones(2))
        with pytest.raises((TypeError, AttributeError)):
            same(*tensors[:-1], "no tensor")  # the careful test, which the builtin calls, says so
