"""Files are written whole or not at all, and what stands in the way is said with its place and what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor

from air_graph.errors import CannotWrite
from air_graph.files import folder, raw_bytes, whole_file, write_bytes, write_npy, write_text


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_file_is_written_and_gets_the_rights_that_any_new_file_gets(tmp_path: Path) -> None:
    (tmp_path / "ordinary").touch()
    path = write_text(tmp_path / "page", "text", "the page")
    assert path.read_text() == "text"
    assert path.stat().st_mode == (tmp_path / "ordinary").stat().st_mode
    assert sorted(os.listdir(tmp_path)) == ["ordinary", "page"]


def test_a_file_that_is_there_keeps_its_rights_and_its_name_through_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to("target")
    write_text(link, "new", "the page")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_text("old")
    with contextlib.suppress(ZeroDivisionError), whole_file(path, "the page") as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["page"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_a_full_device_is_an_error_with_what_where_and_advice() -> None:
    with pytest.raises(CannotWrite) as failure:
        write_text("/dev/full", "text", "the page")
    assert str(failure.value).splitlines() == [
        "the page cannot be written: No space left on device",
        "  at      /dev/full",
        "  advice  free space there, or name another place",
    ]
    assert failure.value.errno == errno.ENOSPC
    assert str(pickle.loads(pickle.dumps(failure.value))) == str(failure.value)


@pytest.mark.parametrize("step", ["open", "fdopen", "replace"])
def test_a_full_disk_at_any_step_leaves_nothing_behind(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            full()

        write = fileno = full

    monkeypatch.setattr(os, step, (lambda *_: Full()) if step == "fdopen" else full)
    with pytest.raises(CannotWrite, match="No space left"):
        write_text(tmp_path / "page", "text", "the page")
    monkeypatch.undo()
    assert os.listdir(tmp_path) == []


def a_file_for_a_folder(place: Path) -> Path:
    place.write_text("")
    return place / "page"


def a_folder_for_a_file(place: Path) -> Path:
    place.mkdir()
    return place


def a_folder_that_vanished(place: Path) -> Path:
    place.mkdir()
    place.rmdir()
    return place / "page"


def links_in_a_circle(place: Path) -> Path:
    place.symlink_to(place)
    return place / "page"


def a_name_that_is_too_long(place: Path) -> Path:
    return place.parent / ("x" * 300)


MISHAPS: dict[Callable[[Path], Path], str] = {
    a_file_for_a_folder: "move it away",
    a_folder_for_a_file: "name a file",
    a_folder_that_vanished: "make the folder first",
    links_in_a_circle: "links",
    a_name_that_is_too_long: "shorter",
}


@pytest.mark.parametrize("mishap", MISHAPS, ids=lambda mishap: mishap.__name__)
def test_each_mishap_names_the_place_and_what_to_do(mishap: Callable[[Path], Path], tmp_path: Path) -> None:
    path = mishap(tmp_path / "place")
    with pytest.raises(CannotWrite, match=MISHAPS[mishap]) as failure:
        write_text(path, "text", "the page")
    assert str(path) in str(failure.value)


@pytest.mark.parametrize("mishap", [a_file_for_a_folder, links_in_a_circle])
def test_a_folder_that_cannot_be_made_is_the_same_error(
    mishap: Callable[[Path], Path], tmp_path: Path
) -> None:
    with pytest.raises(CannotWrite, match="the dumps cannot be written"):
        folder(mishap(tmp_path / "place"), "the dumps")
    with pytest.raises(CannotWrite, match="a file lies where a folder is wanted"):
        folder(write_text(tmp_path / "file", "", "a file"), "the dumps")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_says_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(CannotWrite, match="this user may write"):
        write_text(tmp_path / "page", "text", "the page")
    tmp_path.chmod(0o755)


def test_names_and_texts_that_are_no_unicode_are_written_and_can_be_said(tmp_path: Path) -> None:
    strange = tmp_path / os.fsdecode(b"caf\xe9")
    write_text(strange, "in " + os.fsdecode(b"caf\xe9") + ".py", "the page")
    assert strange.read_bytes() == b"in caf\\udce9.py"
    with pytest.raises(CannotWrite) as failure:
        write_text(strange / "below", "text", "the page")
    str(failure.value).encode()


def test_a_pipe_is_written_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_text(pipe, "text", "the page")
    reader.join()
    assert read == [b"text"]
    assert pipe.is_fifo()


def test_writers_of_one_name_leave_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "page"
    texts = [str(number) * 100_000 for number in range(8)]
    seen: set[bytes] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            if path.exists():
                seen.add(path.read_bytes())

    watcher = threading.Thread(target=look)
    watcher.start()
    writers = [threading.Thread(target=write_bytes, args=(path, text.encode(), "the page")) for text in texts]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    done.set()
    watcher.join()
    assert seen <= {text.encode() for text in texts}
    assert path.read_text() in texts
    assert os.listdir(tmp_path) == ["page"]


ONE = torch.tensor([1.5, -2.0])


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (ONE.requires_grad_().clone(), ONE),
        (ONE.to(torch.bfloat16), ONE),
        (ONE.to(torch.float8_e4m3fn), ONE),
        ((ONE * 1j).conj(), -1j * ONE),
        ((ONE * 1j).conj().imag, -ONE),
        (torch.complex(ONE, ONE).to(torch.complex32), torch.complex(ONE, ONE)),
        (torch.tensor([2**63 + 1], dtype=torch.uint64), torch.tensor([2**63 + 1], dtype=torch.uint64)),
    ],
    ids=["gradient", "bfloat16", "float8", "conjugate", "negative", "complex32", "uint64"],
)
def test_values_that_numpy_has_no_type_for_are_widened_and_lazy_ones_computed(
    tensor: Tensor, expected: Tensor, tmp_path: Path
) -> None:
    path = write_npy(tmp_path / "values.npy", tensor, "the values")
    numpy.testing.assert_array_equal(numpy.load(path), expected.detach().numpy(force=True))


SEVERAL = torch.arange(24).view(2, 3, 4) % 2
NAMES = "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64 complex64 complex128"


@pytest.mark.parametrize("name", NAMES.split())
@pytest.mark.parametrize("shape", ["whole", "turned", "scalar", "empty"])
def test_what_is_written_is_what_numpy_reads(name: str, shape: str, tmp_path: Path) -> None:
    values = SEVERAL.to(getattr(torch, name))
    tensor = {"whole": values, "turned": values.mT, "scalar": values[1, 0, 1], "empty": values[:, :0]}[shape]
    read = numpy.load(write_npy(tmp_path / "values.npy", tensor, "the values"))
    assert read.dtype == tensor.numpy().dtype
    numpy.testing.assert_array_equal(read, tensor.numpy())
    assert raw_bytes(tensor) == tensor.numpy().tobytes()


def test_the_head_of_a_file_for_numpy_grows_by_whole_lines(tmp_path: Path) -> None:
    for rank in range(1, 40):
        path = write_npy(tmp_path / "values.npy", torch.ones([1] * rank), "the values")
        assert (path.stat().st_size - 4) % 64 == 0
        assert numpy.load(path, allow_pickle=False).ndim == rank
