"""The declared operators: schemas of the wheel, fake kernels like the real ones, and stepping aside."""

from __future__ import annotations

import importlib.util
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_flatten, tree_map_only

from air_fxpasses import npu_ops
from air_fxpasses.npu_ops.samples import Sample, samples

SAMPLES = list(samples())
NAMES = [op.name for op in npu_ops.operators()]
LIVE = "torch_npu" in sys.modules


def overload(name: str) -> Any:
    packet, _, which = name.partition(".")
    return getattr(getattr(torch.ops.npu, packet), which or "default")


def described(results: Any) -> list[Any]:
    flat, _ = tree_flatten(results)
    return [(tuple(x.shape), x.dtype, x.device.type) if isinstance(x, torch.Tensor) else x for x in flat]


@pytest.mark.parametrize("name", NAMES)
def test_schema_is_that_of_the_wheel(name: str) -> None:
    assert str(overload(name)._schema) == npu_ops.row(name).schema


@pytest.mark.npu
@pytest.mark.parametrize("name", NAMES)
def test_recorded_schema_is_that_of_the_loaded_torch_npu(name: str) -> None:
    if not LIVE:
        pytest.skip("torch_npu is not loaded")
    assert npu_ops.declared() == ()
    assert str(overload(name)._schema) == npu_ops.row(name).schema


@pytest.mark.skipif(LIVE, reason="torch_npu is loaded")
def test_everything_is_declared_once() -> None:
    assert set(npu_ops.declared()) == set(NAMES)
    assert npu_ops.declare() == ()


@pytest.mark.parametrize("name", NAMES)
def test_kernels_take_the_arguments_of_the_schema(name: str) -> None:
    row = npu_ops.row(name)
    arguments = row.parsed.arguments
    positional = [None for a in arguments if not a.kwarg_only]
    keywords = {a.name: None for a in arguments if a.kwarg_only}
    for kernel in filter(None, (row.reference, row.own_fake)):
        inspect.signature(kernel).bind(*positional, **keywords)


@pytest.mark.parametrize("name", NAMES)
def test_every_operator_has_a_sample(name: str) -> None:
    assert any(sample.operator == name for sample in SAMPLES)


@pytest.mark.sampled(5)
@pytest.mark.skipif(LIVE, reason="torch_npu is loaded")
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "symbolic"])
def test_fake_kernel_foresees_the_result(sample: Sample, dynamic: bool) -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv() if dynamic else None)

    def fake(x: torch.Tensor) -> torch.Tensor:
        return mode.from_tensor(x, static_shapes=not dynamic)

    args, kwargs = tree_map_only(torch.Tensor, fake, (sample.args, sample.kwargs))
    with mode:
        foreseen = overload(sample.operator)(*args, **kwargs)
    args, kwargs = tree_map_only(torch.Tensor, torch.clone, (sample.args, sample.kwargs))
    assert described(foreseen) == described(overload(sample.operator)(*args, **kwargs))


@pytest.mark.skipif(LIVE, reason="torch_npu is loaded")
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_only_what_the_schema_says_is_written(sample: Sample) -> None:
    row = npu_ops.row(sample.operator)
    args, kwargs = tree_map_only(torch.Tensor, torch.clone, (sample.args, sample.kwargs))
    overload(sample.operator)(*args, **kwargs)
    names = [a.name for a in row.parsed.arguments]
    allowed = {*row.mutated, *row.hides_writes}
    for name, before, after in zip(names, sample.args, args, strict=False):
        if isinstance(before, torch.Tensor) and name not in allowed:
            assert torch.equal(before, after), name


def test_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(npu_ops.NotAnNpuOperator, match="npu_rms_norm"):
        npu_ops.reference("npu_rms_nrom")


def test_variant_that_is_not_computed_is_refused_with_its_name() -> None:
    x = torch.ones(1, 4, 8)
    with pytest.raises(npu_ops.NotCovered, match="dropout"):
        npu_ops.reference("npu_fusion_attention")(x, x, x, 1, "BSH", keep_prob=0.5)
    with pytest.raises(npu_ops.NotCovered, match="quant_scale1"):
        npu_ops.reference("npu_fused_infer_attention_score")(x, x, x, quant_scale1=torch.ones(1))


@pytest.mark.skipif(LIVE, reason="torch_npu is loaded")
def test_cards_are_read_without_declaring_and_declarations_step_aside_when_torch_npu_comes_later(
    tmp_path: Path,
) -> None:
    """One after the other in a process of their own."""
    (tmp_path / "torch_npu.py").write_text(
        "import torch\nlibrary = torch.library.Library('npu', 'DEF')\n"
        "library.define('npu_rms_norm(Tensor input) -> Tensor')\n"
    )
    program = (
        "import air_fxpasses.npu_cards as cards, torch\n"
        "from air_fxpasses import updatable_of, registered_updatable\n"
        "assert [r for r in registered_updatable() if r.operator.startswith('npu::')]\n"
        "assert list(cards.row('npu_rms_norm').calls()) and cards.row('npu_rms_norm').padding\n"
        "assert not torch._C._jit_get_schemas_for_operator('npu::npu_rms_norm')\n"
        "import air_fxpasses.npu_ops as n\n"
        "assert n.declared()\ntorch.ops.npu.npu_rms_norm\nimport torch_npu\n"
        "assert n.declared() == () and n.declare() == ()\n"
        "assert len(torch.ops.npu.npu_rms_norm.default._schema.arguments) == 1\n"
    )
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(LIVE, reason="torch_npu is loaded")
def test_declarations_stay_when_somebody_only_looks_for_torch_npu() -> None:
    npu_ops.declare()
    importlib.util.find_spec("torch_npu")
    assert npu_ops.declared()
    assert torch.ops.npu.npu_rms_norm.default is not None
