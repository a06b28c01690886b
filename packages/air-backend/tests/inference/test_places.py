"""`cache_compile` where the disk is full, the place cannot be used or trusted, or a model has hooks."""

from __future__ import annotations

import errno
import json
import os
import resource
import stat
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

import cached_step
from air_backend.inference import _store, cache_compile
from air_backend.inference.errors import CacheWarning, UnsafeCache
from air_config import trust


def traced() -> int:
    return int(counters["stats"].get("unique_graphs", 0))


@pytest.fixture(autouse=True)
def counted() -> None:
    counters.clear()


@contextmanager
def no_space() -> Iterator[None]:
    """No file can grow beyond a few bytes, as the system itself sees to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def called_where_nothing_can_be_written(function: Any, reason: str) -> None:
    """Two graphs are traced; both results are right, and one warning says why they are not kept."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CacheWarning)
        for rows in (3, 5, 3):
            x = cached_step.inputs(rows)
            torch.testing.assert_close(function(x), cached_step.expected(x))
    (warning,) = [w.message for w in caught if isinstance(w.message, CacheWarning)]
    assert reason in str(warning)
    assert "cached_step.Step.step" in str(warning)
    assert traced() == 2


def step(folder: Path) -> Any:
    torch._dynamo.reset()
    return cached_step.cached(cached_step.made(), str(folder), "reduce-overhead")


def test_on_a_full_disk_the_function_runs_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = step(tmp_path)
    real = _store.Store._written

    def written(self: Any, contents: Any) -> Path:
        with no_space():
            return real(self, contents)

    monkeypatch.setattr(_store.Store, "_written", written)
    called_where_nothing_can_be_written(function, "File too large")
    assert os.listdir(function.folder) == []
    monkeypatch.undo()
    counters.clear()
    step(tmp_path)(cached_step.inputs())
    assert os.listdir(function.folder) == ["compiled_module"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_whatever_the_system_refuses_the_function_runs(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: Any, **__: Any) -> Any:
        raise OSError(code, os.strerror(code))

    function = step(tmp_path)
    monkeypatch.setattr("tempfile.mkstemp", refuses)
    called_where_nothing_can_be_written(function, os.strerror(code))
    assert os.listdir(function.folder) == []


def a_file_for_the_folder(place: Path) -> None:
    place.write_text("")


def a_file_above_it(place: Path) -> None:
    place.parent.rmdir()
    place.parent.write_text("")


def a_link_to_nothing(place: Path) -> None:
    place.symlink_to("nowhere")


@pytest.mark.parametrize("mishap", [a_file_for_the_folder, a_file_above_it, a_link_to_nothing])
def test_a_place_that_is_no_folder_costs_the_file_not_the_call(
    mishap: Callable[[Path], None], tmp_path: Path
) -> None:
    place = tmp_path / "above" / "cache"
    place.parent.mkdir()
    mishap(place)
    called_where_nothing_can_be_written(step(place), "cannot be written")


def test_a_folder_that_vanishes_is_made_again(tmp_path: Path) -> None:
    function = step(tmp_path / "cache")
    x = cached_step.inputs()
    torch.testing.assert_close(function(x), cached_step.expected(x))
    for path in function.folder.iterdir():
        path.unlink()
    function.folder.rmdir()
    with warnings.catch_warnings():
        warnings.simplefilter("error", CacheWarning)
        function(cached_step.inputs(5))
    assert os.listdir(function.folder) == ["compiled_module"]


def test_a_place_that_others_may_write_gets_no_file(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    function = step(tmp_path / "shared" / "cache")
    called_where_nothing_can_be_written(function, f"{tmp_path / 'shared'} others may write to it")
    assert os.listdir(function.folder) == []


def test_the_folders_that_are_made_are_this_users_whatever_the_mask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        function = step(tmp_path / "one" / "two")
        function(cached_step.inputs())
    finally:
        os.umask(before)
    made = [tmp_path / "one", tmp_path / "one" / "two", function.folder, function.folder / "compiled_module"]
    assert [stat.S_IMODE(path.stat().st_mode) & 0o077 for path in made] == [0, 0, 0, 0]


def test_a_disk_without_second_names_of_files_keeps_each_writer_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuses)
    function = step(tmp_path)
    for rows in (3, 5):
        function(cached_step.inputs(rows))
    assert sorted(os.listdir(function.folder)) == ["compiled_module", "compiled_module.1"]
    counters.clear()
    again = step(tmp_path)
    for rows in (3, 5):
        x = cached_step.inputs(rows)
        torch.testing.assert_close(again(x), cached_step.expected(x))
    assert traced() == 0


def with_expression(path: Path, expression: str) -> None:
    """A file like the one there, whose `about.json` has another global to compare."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    about = json.loads(parts["about.json"])
    about["globals"][expression] = "1"
    parts["about.json"] = json.dumps(about).encode()
    path.unlink()
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    path.chmod(0o600)


@pytest.mark.parametrize("hole", ["file", "folder", "parent", "link"])
def test_nothing_of_a_file_that_others_could_have_written_is_run(hole: str, tmp_path: Path) -> None:
    """Neither the pickle in it nor the expressions that are compared before it."""
    function = step(tmp_path / "above" / "cache")
    function(cached_step.inputs())
    path, mark = function.folder / "compiled_module", tmp_path / "mark"
    with_expression(path, f"__import__('pathlib').Path({str(mark)!r}).touch()")
    if hole == "link":
        (tmp_path / "shared").mkdir()
        path.rename(tmp_path / "shared" / "file")
        path.symlink_to(tmp_path / "shared" / "file")
        (tmp_path / "shared").chmod(0o777)
    else:
        places = {"file": path, "folder": function.folder, "parent": tmp_path / "above"}
        places[hole].chmod(0o777)
    with pytest.raises(UnsafeCache, match=r"compiled_module is not read.*others may write") as failure:
        step(tmp_path / "above" / "cache")(cached_step.inputs())
    assert "chmod go-w" in failure.value.advice
    assert not mark.exists()


def test_a_file_that_is_exchanged_after_it_was_looked_at_is_not_the_one_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = step(tmp_path)
    x = cached_step.inputs()
    function(x)
    path, mark = function.folder / "compiled_module", tmp_path / "mark"
    evil = tmp_path / "evil"
    evil.write_bytes(path.read_bytes())
    with_expression(evil, f"__import__('pathlib').Path({str(mark)!r}).touch()")
    real = trust._judge

    def exchanging(whole: str, part: str, found: os.stat_result) -> None:
        real(whole, part, found)
        if part == str(path) and evil.exists():
            evil.replace(path)

    monkeypatch.setattr(trust, "_judge", exchanging)
    counters.clear()
    torch.testing.assert_close(step(tmp_path)(x), cached_step.expected(x))
    assert not evil.exists(), "the exchange took place"
    assert not mark.exists()
    assert traced() == 0


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Identity()

    def step(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.inner(x)) + 1


def doubled(module: nn.Module, args: Any, result: Tensor) -> Tensor:
    return result * 2


def tripled(module: nn.Module, args: Any, result: Tensor) -> Tensor:
    return result * 3


def scaled(number: int) -> Callable[..., Tensor]:
    return lambda module, args, result: result * number


def shifted(module: nn.Module, args: tuple[Tensor]) -> tuple[Tensor]:
    return (args[0] + 10,)


def run(folder: Path, *hooks: Callable[..., Any], before: bool = False) -> tuple[Tensor, Tensor]:
    """What a cached function and eager give for a model with these hooks."""
    torch._dynamo.reset()
    model = Layer()
    for hook in hooks:
        if before:
            model.inner.register_forward_pre_hook(hook)
        else:
            model.inner.register_forward_hook(hook)
    x = torch.ones(2)
    return cache_compile(model.step, cache_dir=folder)(x), model.step(x)


def test_a_graph_is_read_only_where_the_hooks_are_those_it_was_traced_with(tmp_path: Path) -> None:
    variants: list[tuple[tuple[Callable[..., Any], ...], bool]] = [
        ((), False), ((doubled,), False), ((tripled,), False), ((doubled, tripled), False),
        ((scaled(4),), False), ((scaled(5),), False), ((shifted,), True),
    ]  # fmt: skip
    for expected in (len(variants), 0):
        counters.clear()
        for hooks, before in variants:
            ours, eager = run(tmp_path, *hooks, before=before)
            torch.testing.assert_close(ours, eager)
        assert traced() == expected


def test_hooks_of_all_modules_count_too(tmp_path: Path) -> None:
    torch.testing.assert_close(*run(tmp_path))
    handle = nn.modules.module.register_module_forward_hook(doubled)  # type: ignore[arg-type]  # torch says it returns None
    try:
        torch.testing.assert_close(*run(tmp_path))
    finally:
        handle.remove()


def test_a_function_with_a_hook_that_has_no_name_in_a_file_is_compiled_in_each_process(
    tmp_path: Path,
) -> None:
    class Hook:
        def __init__(self) -> None:
            self.weight = torch.ones(2)

        def __call__(self, module: nn.Module, args: Any, result: Tensor) -> Tensor:
            return result * self.weight

    with pytest.warns(CacheWarning, match=r"self\.inner has a forward hook"):
        torch.testing.assert_close(*run(tmp_path, Hook()))


@pytest.mark.parametrize("given", ["cache", None])
def test_A51_a_relative_folder_is_below_the_directory_in_which_the_function_was_made(
    given: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCHAIR_CACHE_HOME", raising=False)
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    function = cache_compile(cached_step.made().step, cache_dir=given)
    monkeypatch.chdir(tmp_path / "there")
    function(cached_step.inputs())
    assert function.folder.is_relative_to(tmp_path / "here" / (given or ".air_cache"))
    assert (function.folder / "compiled_module").is_file()
    assert not list((tmp_path / "there").iterdir())
