"""Offline models: a model is exported, compiled by `atc` and run by pyACL, and gives what eager gives."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from air_geir.errors import EngineError, EngineUnavailableError
from air_geir.export import dynamo_export
from air_geir.offline import OfflineModel, _atc, compile_air, load_om, soc_name
from air_graph.errors import CannotWrite

pytest.importorskip("torch_npu")
pytestmark = [pytest.mark.npu, pytest.mark.filterwarnings("ignore::FutureWarning")]


class Two(torch.nn.Module):
    """Two inputs of two types, two results."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 8)

    def forward(self, x: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = torch.nn.functional.gelu(self.first(x))
        return found[rows], found.argmax(-1)


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(3, 4), torch.tensor([2, 0])


@pytest.fixture(scope="module")
def model() -> Two:
    return Two().eval()


@pytest.fixture(scope="module")
def air(model: Two, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    return dynamo_export(*inputs(), model=model, export_path=folder, export_name="two").model


@pytest.fixture(scope="module")
def om(air: Path) -> Path:
    return compile_air(air, air.with_name("two"))


@pytest.fixture
def loaded(om: Path) -> Iterator[OfflineModel]:
    with load_om(om) as made:
        yield made


@pytest.mark.parametrize("place", ["cpu", "npu"])
def test_a_model_runs_and_equals_eager_where_its_inputs_lie(
    place: str, loaded: OfflineModel, model: Two
) -> None:
    for _ in range(2):
        given = inputs()
        results = loaded(*(t.to(place) for t in given))
        assert {t.device.type for t in results} == {place}
        for result, want in zip(results, model(*given), strict=True):
            torch.testing.assert_close(result.cpu(), want)


def test_a_strided_input_is_read_as_it_is(loaded: OfflineModel, model: Two) -> None:
    x, rows = torch.randn(4, 3).t(), torch.tensor([2, 5, 0])[::2]
    torch.testing.assert_close(loaded(x.to("npu"), rows.to("npu"))[0].cpu(), model(x, rows)[0])
    torch.testing.assert_close(loaded(x, rows)[0], model(x, rows)[0])


class Cache(torch.nn.Module):
    """Writes its first argument, and reads the second."""

    def forward(self, kept: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        kept.add_(x)
        return kept * 2


@pytest.mark.parametrize("place", ["cpu", "npu"])
@pytest.mark.parametrize(
    "lies",
    [lambda t: t, lambda t: t.t(), lambda t: t[:, ::2], lambda t: torch._neg_view(t[:, :3].contiguous())],
    ids=["dense", "turned", "with_gaps", "negated"],
)
def test_an_input_that_the_model_writes_has_its_new_values_however_it_lies(
    lies: Callable[[torch.Tensor], torch.Tensor], place: str, tmp_path: Path
) -> None:
    whole = torch.randn(3, 6, device=place)
    kept = lies(whole)
    want, x = kept.cpu().clone(), torch.randn(kept.shape, device=place)
    untouched = x.clone()
    air = dynamo_export(want.clone(), x.cpu(), model=Cache(), export_path=tmp_path, export_name="c").model
    with load_om(compile_air(air, tmp_path / "c")) as served:
        for _ in range(2):
            want.add_(x.cpu())
            torch.testing.assert_close(served(kept, x)[0].cpu(), want * 2)
            torch.testing.assert_close(kept.cpu(), want)
    assert torch.equal(x, untouched)


def test_results_of_a_call_stay_when_it_is_called_again(loaded: OfflineModel, model: Two) -> None:
    given, other = inputs(), inputs()
    for place in ("cpu", "npu"):
        first = loaded(*(t.to(place) for t in given))
        loaded(*(t.to(place) for t in other))
        torch.testing.assert_close(first[0].cpu(), model(*given)[0])


def test_threads_share_a_model(loaded: OfflineModel, model: Two) -> None:
    failures: list[str] = []

    def work(place: str) -> None:
        torch.get_device_module("npu").set_device(0)
        for _ in range(20):
            given = inputs()
            found = loaded(*(t.to(place) for t in given))[0].cpu()
            if not torch.allclose(found, model(*given)[0], atol=1e-5):
                failures.append(place)

    threads = [Thread(target=work, args=(place,)) for place in ("cpu", "npu", "cpu")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


X, ROWS = torch.randn(3, 4), torch.tensor([2, 0])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ((X,), "it takes 2 tensors, 1 were given"),
        ((X[:2], ROWS), r"input 0 is x: float32\[2, 4\], the model was compiled for x: float32\[3, 4\]"),
        ((X, ROWS.int()), r"input 1 is rows: int32\[2\], the model was compiled for rows: int64\[2\]"),
        ((X, [2, 0]), "input 1 is list, not a tensor"),
        ((X.to_sparse(), ROWS), "input 0 is sparse_coo: there is no memory"),
        ((FakeTensorMode().from_tensor(X), ROWS), "input 0 is a fake tensor"),
        ((X.to("meta"), ROWS), "its inputs lie on cpu and meta"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_with_what_the_model_takes(
    given: tuple[torch.Tensor, ...], reason: str, loaded: OfflineModel
) -> None:
    with pytest.raises(EngineError, match=f"(?s){reason}.*call it with x: float32.*rows: int64"):
        loaded(*given)


def test_a_closed_model_says_so(om: Path) -> None:
    made = load_om(om)
    made.close()
    made.close()
    with pytest.raises(EngineError, match="the offline model was closed"):
        made(*inputs())


def test_a_model_that_is_dropped_gives_its_memory_back_and_says_so(om: Path) -> None:
    given, npu = inputs(), torch.get_device_module("npu")
    with load_om(om) as kept:
        kept(*given)
        free, _ = npu.mem_get_info()
        for _ in range(3):
            with pytest.warns(ResourceWarning, match=r"two\.om was dropped and not closed"):
                load_om(om)(*given)
        assert npu.mem_get_info()[0] == free
        kept(*given)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_model_that_a_graph_of_the_program_replays_outlives_its_name(
    om: Path, model: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    npu = torch.get_device_module("npu")
    given = [value.to("npu") for value in inputs()]

    def captured() -> tuple[Any, tuple[torch.Tensor, ...]]:
        served, graph = load_om(om), npu.NPUGraph()
        served(*given)
        npu.synchronize()
        with npu.graph(graph):
            results = served(*given)
        return graph, results

    closed: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(OfflineModel, "close", lambda self: closed.append("once"))
        graph, results = captured()
    assert closed == []
    given[0].copy_(torch.randn(3, 4))
    graph.replay()
    npu.synchronize()
    wanted = model(*(value.cpu() for value in given))
    torch.testing.assert_close(results[0].cpu(), wanted[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", ["npu:0", True, -1, 0.0])
def test_a_device_that_is_no_number_is_refused(device: Any, om: Path) -> None:
    with pytest.raises(EngineError, match=r"the device is .*, and not a number"):
        load_om(om, device=device)


def cut(data: bytes) -> bytes:
    return data[:-20]


def edited(data: bytes) -> bytes:
    return data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]


def other_chip(data: bytes) -> bytes:
    return data.replace(soc_name().encode(), b"Ascend310P3", 1)


def nothing(data: bytes) -> bytes:
    return b""


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (cut, "is cut"),
        (edited, "its sum differs"),
        (other_chip, "compiled for Ascend310P3"),
        (nothing, "no offline model"),
    ],
)
def test_a_spoilt_file_is_refused_with_cause_and_advice_and_others_still_load(
    spoil: Callable[[bytes], bytes], cause: str, om: Path, tmp_path: Path, model: Two
) -> None:
    broken = tmp_path / "broken.om"
    broken.write_bytes(spoil(om.read_bytes()))
    with pytest.raises(
        EngineError, match=f"(?s)failed to load the offline model.*{cause}.*compile it again with atc"
    ):
        load_om(broken)
    given = inputs()
    with load_om(om) as sound:
        torch.testing.assert_close(sound(*given)[0], model(*given)[0])


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"none\.om is not a file"):
        load_om(tmp_path / "none.om")


def test_open_sizes_are_given_to_atc(tmp_path: Path, model: Two) -> None:
    exported = dynamo_export(
        torch.randn(3, 4), model=model.first, export_path=tmp_path, export_name="open", dynamic=True
    )
    (name,) = (node.name for node in exported.graph.inputs)
    with pytest.raises(EngineError, match=r"has open sizes: give --input_shape"):
        compile_air(exported.model, tmp_path / "none")
    with load_om(
        compile_air(exported.model, tmp_path / "six", options={"input_shape": f"{name}:6,4"})
    ) as made:
        x = torch.randn(6, 4)
        torch.testing.assert_close(made(x)[0], model.first(x))


def test_a_program_without_torch_npu_serves_a_model(om: Path) -> None:
    code = (
        "import sys, torch\n"
        "from air_geir.offline import load_om\n"
        "(picked, best) = load_om(sys.argv[1])(torch.ones(3, 4), torch.tensor([2, 0]))\n"
        "print(tuple(picked.shape), best.dtype, 'torch_npu' in sys.modules)\n"
    )
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    command = [sys.executable, "-W", "ignore", "-c", code, str(om)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("(2, 8) torch.int64 False\n", 0), done.stderr


def fake_atc(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program of this name, before the one of the toolkit."""
    folder.mkdir()
    program = folder / "atc"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


HALF = 'for word; do case $word in --output=*) echo half > "${word#--output=}.om";; esac; done\n'


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        (f"{HALF}kill -9 $$", r"atc was killed by SIGKILL.*programs that take too much"),
        (f"{HALF}kill -11 $$", "atc was killed by SIGSEGV"),
        ("echo E10001: no such chip; exit 3", "atc failed with code 3: E10001: no such chip"),
        ("exit 0", "atc ended without an error and without an offline model"),
    ],
)
def test_an_atc_that_fails_is_an_error_and_leaves_nothing(
    script: str, cause: str, air: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out"
    with monkeypatch.context() as patch:
        fake_atc(tmp_path / "bin", script, patch)
        with pytest.raises(EngineError, match=f"(?s){cause}"):
            compile_air(air, target / "two")
    assert list(target.iterdir()) == []
    assert compile_air(air, target / "two") == target / "two.om"
    assert [path.name for path in target.iterdir()] == ["two.om"]


def test_an_interrupt_ends_atc_and_leaves_nothing(
    air: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_atc(tmp_path / "bin", f"{HALF}kill -INT $PPID; exec sleep 60", monkeypatch)
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            compile_air(air, tmp_path / "out" / "two")
    finally:
        signal.signal(signal.SIGINT, before)
    assert list((tmp_path / "out").iterdir()) == []


def test_an_option_that_atc_does_not_have_is_refused_in_its_words(air: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="unrecognized arguments: --colour=red"):
        compile_air(air, tmp_path / "two", options={"colour": "red"})


@pytest.mark.parametrize("name", ["model", "output", "framework", "soc_version"])
def test_an_option_that_is_an_argument_is_refused(name: str, air: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=f"options of compile_air has {name}, which it sets itself"):
        compile_air(air, tmp_path / "two", options={name: "1"})


@pytest.mark.parametrize("output", ["", ".", "out"])
def test_a_folder_is_no_place_for_a_model(
    output: str, air: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here" / "out").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(EngineError, match=f"output is '{output}', a folder"):
        compile_air(air, output)


def test_a_folder_that_takes_no_files_is_named(air: Path) -> None:
    with pytest.raises(CannotWrite, match=r"the offline model cannot be written"):
        compile_air(air, "/proc/two")


def test_a_missing_program_and_a_missing_module_say_what_to_install(
    air: Path, om: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_atc, "PROGRAM", "atc_of_nobody")
    with pytest.raises(EngineUnavailableError, match=r"(?s)atc_of_nobody is not on PATH.*set_env\.sh"):
        compile_air(air, tmp_path / "two")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "acl", raising=False)
    with pytest.raises(EngineUnavailableError, match=r"(?s)module acl is not there.*set_env\.sh"):
        load_om(om)


def test_an_export_below_a_relative_path_is_compiled_with_its_weights_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model, x = torch.nn.Linear(64, 64).eval(), torch.randn(2, 64)
    air = dynamo_export(x, model=model, export_path="out", inline_limit=0).model
    with load_om(compile_air(air, "out/model")) as loaded:
        torch.testing.assert_close(loaded(x), (model(x),), rtol=1e-4, atol=1e-4)
