"""`ge_cache=True` on an NPU: the second process traces nothing, and has the engine compile nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch_npu")
forks = pytest.importorskip("air_sim.forks")
pytestmark = pytest.mark.npu("the Graph Engine keeps what it compiled")

RUN = """
import sys, torch, torch_npu, air_backend, cached_step
from torch._dynamo.utils import counters
config = air_backend.CompilerConfig()
config.mode = "max-autotune"
model, x = cached_step.made().npu(), cached_step.inputs().npu()
step = air_backend.inference.cache_compile(
    model.step, config=config, cache_dir=sys.argv[1], dynamic=False, ge_cache=True)
torch.testing.assert_close(step(x).cpu(), cached_step.expected(x.cpu()))
torch.testing.assert_close(step(x).cpu(), cached_step.expected(x.cpu()))
print(counters["stats"].get("unique_graphs", 0), step.folder)
"""


def ran(folder: Path, number: int) -> tuple[int, list[str], Path]:
    """How many graphs a process traced, what it had the engine do, and where the files lie."""
    record = folder / f"{number}.jsonl"
    done = forks.run(RUN, str(folder / "cache"), variables={"AIR_SIM_GE_RECORD": str(record)})
    assert done.returncode == 0, done.stderr
    traced, _, place = done.stdout.splitlines()[-1].partition(" ")
    calls = [json.loads(line)["call"] for line in record.read_text().splitlines()]
    made = [call for call in calls if call in ("CompileGraph", "ReadCompiledGraph")]
    return int(traced), made, Path(place)


def test_G18_another_process_reads_the_graph_and_what_the_engine_made_of_it(tmp_path: Path) -> None:
    traced, made, folder = ran(tmp_path, 0)
    assert (traced, made) == (1, ["CompileGraph"])
    assert sorted(path.name for path in folder.iterdir()) == ["compiled_module", "ge"]
    traced, made, _ = ran(tmp_path, 1)
    assert (traced, made) == (0, ["ReadCompiledGraph"])


SAVED = """
import sys, torch, torch_npu, air_backend, cached_step
from pathlib import Path
from torch._dynamo.utils import counters
engine, given, wanted = sys.argv[1:]
if given != "-":
    torch.compiler.load_cache_artifacts(Path(given).read_bytes())
model, x = cached_step.made().npu(), cached_step.inputs().npu()
options = {"air.cache.save": True, "mode": "max-autotune", "air.engine": engine}
step = torch.compile(model.step, backend="air", options=options, dynamic=False, fullgraph=True)
with torch.no_grad():
    torch.testing.assert_close(step(x).cpu(), cached_step.expected(x.cpu()))
if wanted != "-":
    Path(wanted).write_bytes(torch.compiler.save_cache_artifacts()[0])
print(counters["aot_autograd"]["autograd_cache_hit"])
"""


def saved(cache: Path, engine: str, given: object = "-", wanted: object = "-") -> tuple[int, list[str]]:
    """How many traced graphs a process found in torch's cache, and what it had the engine do."""
    record = cache.parent / f"{cache.name}.jsonl"
    own = {"AIR_SIM_GE_RECORD": str(record), "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    done = forks.run(SAVED, engine, str(given), str(wanted), variables=own)
    assert done.returncode == 0, done.stderr
    calls = [json.loads(line)["call"] for line in record.read_text().splitlines()]
    record.unlink()
    return int(done.stdout), [call for call in calls if call in ("CompileGraph", "ReadCompiledGraph")]


@pytest.mark.parametrize("engine", ["torchair_extension", pytest.param("ge_session", marks=pytest.mark.slow)])
def test_N18_torchs_artifacts_hold_what_the_engine_made_for_another_machine(
    engine: str, tmp_path: Path
) -> None:
    artifacts = tmp_path / "artifacts"
    assert saved(tmp_path / "here", engine, wanted=artifacts) == (0, ["CompileGraph"])
    assert saved(tmp_path / "there", engine, given=artifacts) == (1, ["ReadCompiledGraph"])
    assert [path.name for path in (tmp_path / "there" / "air_ge").iterdir()] == [
        path.name for path in (tmp_path / "here" / "air_ge").iterdir()
    ]
