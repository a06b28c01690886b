"""What the Graph Engine is told, seen where the extension is called: a process of its own, with every option set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch_npu")
forks = pytest.importorskip("air_sim.forks")
pytestmark = pytest.mark.npu

SCRIPT = """
import json, sys
import torch, torch_npu
import air_geir
from air_config import CompilerConfig, Context, resolve
from air_geir.engines import _extension
from air_geir.proof import trace

folder = sys.argv[1]
config = CompilerConfig()
experimental, ge = config.experimental_config, config.ge_config
experimental.frozen_parameter = experimental.memory_efficiency = experimental.cc_parallel_enable = True
experimental.tiling_schedule_optimize = experimental.enable_ref_data = True
experimental.topology_sorting_strategy = "RDFS"
experimental.static_model_ops_lower_limit = 7
ge.oo_level, ge.oo_constant_folding, ge.oo_dead_code_elimination = "O3", True, False
ge.export_compile_stat, ge.aicore_num, ge.optimization_switch = "1", "24|48", "A:on;B:off"
ge.enable_single_stream = True
config.fusion_config.fusion_switch_file = folder + "/fusion.cfg"
settings = resolve(config, Context(device="npu"))

module, seen = _extension.load(), {}
start, Base = module.InitializeGraphEngine, module.TorchNpuGraphBase

def initialize(options):
    seen["session"] = dict(options)
    return start(options)

class Watched(Base):
    def load(self, model, options, *others):
        seen["graph"], seen["references"] = dict(options), model.count(b"RefData")
        return super().load(model, options, *others)

module.InitializeGraphEngine, module.TorchNpuGraphBase = initialize, Watched
x, cache = torch.randn(4, 4).npu(), torch.zeros(4, 4).npu()
weight = torch.nn.Parameter(torch.randn(4, 4).npu(), requires_grad=False)
at = torch.tensor([[1], [3]]).npu()

def step(x, weight, cache, at):
    torch.ops.npu.npu_scatter_nd_update_(cache, at, (x @ weight)[:2])
    return x @ weight

gm = trace(step, [x, weight, cache, at])
run = air_geir.compile_graph(gm, [x, weight, cache, at], settings=settings)
result = run(x, weight, cache, at)[0]
torch.testing.assert_close(result, x @ weight)
torch.testing.assert_close(cache[[1, 3]], (x @ weight)[:2])
seen["result"] = list(result.shape)
print(json.dumps(seen))
"""
SESSION = {
    "ge.exec.enableEngineParallel": "1",
    "ge.enableSingleStream": "true",
    "ge.oo.level": "O3",
    "ge.oo.constantFolding": "true",
    "ge.oo.deadCodeElimination": "false",
    "ge.exportCompileStat": "1",
    "ge.aicoreNum": "24|48",
    "ge.optimizationSwitch": "A:on;B:off",
}
GRAPH = {
    "ge.jit_compile": "2",
    "ge.topoSortingMode": "2",
    "ge.featureBaseRefreshable": "1",
    "ge.tiling_schedule_optimize": "1",
    "ge.exec.static_model_ops_lower_limit": "7",
    "frozenInput": "0,1,0,0",
}


def test_G14_G15_G25_G26_G27_G28_G29_G30_G31_G38_G40_G41_G42_G43_every_option_reaches_the_engine(
    tmp_path: Path,
) -> None:
    (tmp_path / "fusion.cfg").write_text(json.dumps({"Switch": {"GraphFusion": {"ALL": "on"}}}))
    done = forks.run(SCRIPT, str(tmp_path), folder=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert {k: v for k, v in seen["session"].items() if k in SESSION} == SESSION
    assert seen["session"]["ge.fusionSwitchFile"] == str(tmp_path / "fusion.cfg")
    assert {k: v for k, v in seen["graph"].items() if k in GRAPH} == GRAPH
    assert seen["references"] > 0
    assert seen["result"] == [4, 4]
