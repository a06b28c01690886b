"""Every public name can be had, and TorchAir's names that AIR stands in for do what they say."""

from __future__ import annotations

import compileall
import importlib
import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import air_backend as torchair

SEED_NAMES = (
    "CompilerConfig",
    "configs.compiler_config.CompilerConfig",
    "core.utils.logger",
    "dynamo_export",
    "ge.custom_op",
    "get_compiler",
    "get_npu_backend",
    "inference.set_dim_gears",
    "logger",
    "ops.npu_create_tagged_event",
    "ops.npu_record_tagged_stream",
    "ops.npu_tagged_event_record",
    "ops.npu_tagged_event_wait",
    "ops.record",
    "ops.wait",
    "register_fx_node_ge_converter",
    "register_replacement",
    "scope.limit_core_num",
    "scope.npu_stream_switch",
    "scope.npu_wait_tensor",
)


@pytest.mark.parametrize("name", torchair.__all__)
def test_every_public_name_can_be_had(name: str) -> None:
    assert getattr(torchair, name) is not None
    assert name in dir(torchair)


@pytest.mark.parametrize("name", SEED_NAMES)
def test_torchair_names_are_there(name: str) -> None:
    value: object = torchair
    for part in name.split("."):
        value = getattr(value, part)
    assert callable(value) or name.endswith("logger")


def test_the_names_are_there_where_only_compiled_files_are_installed(tmp_path: Path) -> None:
    package = tmp_path / "air_backend"
    shutil.copytree(Path(torchair.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    assert compileall.compile_dir(package, legacy=True, quiet=1)
    for source in package.rglob("*.py"):
        source.unlink()
    program = "import air_backend as a; print(a.__file__, a.AirError.__module__, *a.__all__)"
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert ran.stdout.split() == [str(package / "__init__.pyc"), "air_config.errors", *torchair.__all__], (
        ran.stderr
    )


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'get_npu_backends'"):
        torchair.get_npu_backends  # type: ignore[attr-defined]  # the stub has no such name either


def test_modules_import_by_their_dotted_names() -> None:
    for name in ("configs.compiler_config", "core.utils", "scope", "ops", "ge", "inference"):
        assert importlib.import_module(f"air_backend.{name}").__name__ == f"air_backend.{name}"


def test_G20_dynamo_export_writes_a_model_and_its_weights(tmp_path: Path) -> None:
    model = nn.Linear(4, 4)
    torchair.dynamo_export(
        torch.randn(2, 4), model=model, export_path=str(tmp_path / "out"), export_name="linear"
    )
    assert (tmp_path / "out" / "linear.air").stat().st_size > 0


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_A39_G06_a_users_pattern_is_replaced(mode: str) -> None:
    def search(x: Tensor, y: Tensor) -> Any:
        return torch.ops.aten.sigmoid.default(torch.ops.aten.mul.Tensor(x, y))

    def replace(x: Tensor, y: Tensor) -> Any:
        return torch.ops.aten.tanh.default(torch.ops.aten.mul.Tensor(x, y))

    torchair.register_replacement(search, replace, (torch.empty(2), torch.empty(2)), skip_duplicates=True)

    def function(x: Tensor, y: Tensor) -> Tensor:
        return torch.sigmoid(x * y)

    config = torchair.CompilerConfig()
    config.set("mode", mode)
    x, y = torch.randn(8), torch.randn(8)
    compiled = torch.compile(function, backend=torchair.get_npu_backend(compiler_config=config))
    torch.testing.assert_close(compiled(x, y), torch.tanh(x * y))


HOUSE = (
    "air_config", "air_graph", "air_fxpasses", "air_fxpasses.npu_cards", "air_streams", "air_aclgraph",
    "air_aclgraph.static_kernel", "air_geir", "air_backend",
)  # fmt: skip


@pytest.mark.parametrize("package", HOUSE)
def test_the_root_of_errors_catches_every_error_of_every_package(package: str) -> None:
    errors = importlib.import_module(f"{package}.errors")
    found = [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, Exception) and not issubclass(value, Warning)
    ]
    assert found
    for error in found:
        assert issubclass(error, torchair.AirError), error
        assert error.__str__ is torchair.AirError.__str__, f"{error}: one way to write an error"
