"""Everything public in the torchair of the torch_npu wheel is here, or has a row that says why not and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import air_backend
from air_backend._absent import ABSENT, table
from air_backend.errors import BadAddresses, BadPrint, WeightsOnHost
from air_config import FLAT_OPTIONS, OPTIONS
from forked import on_air_sim

WALK = """
import importlib, json, logging, types
import torch, torch_npu, torchair
from torchair.configs.npugraphex_config import _NpuGraphExConfig

MODULES = ("", "configs.compiler_config", "core.utils", "ge", "ge.attr", "inference", "llm_datadist", "ops", "scope",
           "experimental.inference")

def names(module):
    listed = getattr(module, "__all__", None) or ()
    own = [name for name, value in vars(module).items()
           if not isinstance(value, types.ModuleType) and getattr(value, "__module__", "").startswith("torchair")]
    return sorted(name for name in {*listed, *own} if not name.startswith("_"))

def options(group, prefix=""):
    for name, value in vars(group).items():
        if name in ("_fixed_attrs",):
            continue
        if type(value).__module__.startswith("torchair.configs") and "_option_base" not in type(value).__module__:
            yield from list(options(value, f"{prefix}{name}.")) or [prefix + name]
        else:
            yield prefix + (name.removeprefix("_") if name == "_path" else name)

found = {}
for module in MODULES:
    home = "torchair" + ("." + module if module else "")
    found[module] = names(importlib.import_module(home))
tree = torchair.CompilerConfig()
walked = {"names": found, "options": list(options(tree)), "flat": sorted(_NpuGraphExConfig.ALLOWED_OPTIONS)}
print("WALKED" + json.dumps(walked))
"""
REASONS = {row.name for row in ABSENT}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The public names and options of the other package, read in a process of its own."""
    done = on_air_sim(WALK, tmp_path_factory.mktemp("walk"))
    assert "WALKED" in done.stdout, done.stdout + done.stderr[-3000:]
    return json.loads(done.stdout.partition("WALKED")[2])


def has(path: str) -> bool:
    value: object = air_backend
    for part in path.split("."):
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True


@pytest.mark.npu("it is about torch_npu's own modules and formats")
def test_every_public_name_of_torchair_is_here_or_has_a_reason(wheel: Any) -> None:
    paths = [
        f"{module}.{name}" if module else name for module, names in wheel["names"].items() for name in names
    ]
    assert len(paths) > 50
    lacking = [path for path in paths if not has(path) and path not in REASONS]
    assert lacking == []


@pytest.mark.npu("it is about torch_npu's own modules and formats")
def test_every_option_of_torchair_is_here_or_has_a_reason(wheel: Any) -> None:
    ours = set(OPTIONS)
    theirs = wheel["options"]
    assert len(theirs) > 60
    lacking = [path for path in theirs if path not in ours and path not in REASONS]
    assert lacking == []


@pytest.mark.npu("it is about torch_npu's own modules and formats")
def test_every_flat_option_of_npugraph_ex_is_here(wheel: Any) -> None:
    assert sorted(set(wheel["flat"]) - {option.name for option in FLAT_OPTIONS}) == []


@pytest.mark.npu("it is about torch_npu's own modules and formats")
def test_no_reason_is_left_for_a_name_the_wheel_does_not_have(wheel: Any) -> None:
    paths = {
        f"{module}.{name}" if module else name for module, names in wheel["names"].items() for name in names
    }
    known = paths | set(wheel["options"])
    assert [row.name for row in ABSENT if row.name not in known] == []


def test_the_migration_page_shows_the_same_rows() -> None:
    page = Path(__file__).parents[3] / "docs" / "migration.md"
    if not page.exists():
        pytest.skip("only in a checkout")
    assert table() in page.read_text(), "paste the output of: python -m air_backend._absent"


def test_G45_weights_that_are_not_on_an_npu_are_refused_by_name() -> None:
    model = nn.Sequential(nn.ReLU(), nn.Linear(2, 2))
    with pytest.raises(WeightsOnHost, match=r"1\.weight is on 'cpu'") as failure:
        air_backend.use_internal_format_weight(model)
    assert "model.npu()" in failure.value.advice
    air_backend.use_internal_format_weight(nn.ReLU())


@pytest.mark.npu("it is about torch_npu's own modules and formats")
def test_G45_each_layer_is_cast_to_the_format_its_operator_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch_npu

    casts: list[tuple[tuple[int, ...], int]] = []

    def cast(tensor: torch.Tensor, acl_format: int) -> torch.Tensor:
        casts.append((tuple(tensor.shape), acl_format))
        return tensor.clone()

    monkeypatch.setattr(torch_npu, "npu_format_cast", cast)
    layers = (
        nn.Linear(16, 32),
        nn.Conv2d(16, 16, 3).half(),
        nn.Conv2d(16, 16, 3),
        nn.Conv2d(16, 16, 3, groups=2).half(),
    )
    model = nn.Sequential(*layers).to("npu")
    air_backend.use_internal_format_weight(model)
    assert casts == [((32, 16), 29), ((16, 16, 3, 3), 4)]


@pytest.mark.npu("it is about torch_npu's own modules and formats")
@pytest.mark.parametrize("allowed", [True, False], ids=["allowed", "forbidden"])
def test_G45_a_warning_says_that_torch_npu_left_weights_as_they_were(
    allowed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 16)).half().to("npu")
    config = torch.get_device_module("npu").config
    config.allow_internal_format = allowed
    try:
        air_backend.use_internal_format_weight(model)
    finally:
        config.allow_internal_format = False
    told = (
        "left 2 weights in their own format: set torch.npu.config.allow_internal_format = True" in caplog.text
    )
    assert told == (not allowed)


def test_G46_a_cast_of_a_tensor_on_the_host_is_refused() -> None:
    with pytest.raises(WeightsOnHost, match="npu_format_cast_via_cpu"):
        air_backend.npu_format_cast_via_cpu(torch.ones(2, 2), 29)


@pytest.mark.npu("it is about torch_npu's own modules and formats")
def test_G46_a_format_that_needs_no_layout_keeps_the_values() -> None:
    x = torch.randn(4, 4).to("npu")
    assert torch.equal(air_backend.npu_format_cast_via_cpu(x, 2).cpu(), x.cpu())


@pytest.mark.npu("it is about torch_npu's own modules and formats")
def test_G47_tensors_over_addresses_see_the_memory_that_is_there() -> None:
    x = torch.arange(6, dtype=torch.float16).to("npu")
    (y,) = air_backend.llm_datadist.create_npu_tensors([2, 3], torch.float16, [x.data_ptr()])
    assert torch.equal(y.cpu().flatten(), x.cpu())
    x.fill_(7)
    assert y.cpu().eq(7).all()


@pytest.mark.parametrize(("shape", "addresses"), [([2.0], [1]), ([2], ["1"]), (2, [1])])
def test_G47_what_is_no_list_of_numbers_is_refused(shape: Any, addresses: Any) -> None:
    with pytest.raises(BadAddresses, match="must be a list of int"):
        air_backend.llm_datadist.create_npu_tensors(shape, torch.float16, addresses)


PRINTING = ("eager", "run_eagerly", "reduce-overhead", "max-autotune")


def printing(function: Any, mode: str) -> Any:
    config = air_backend.CompilerConfig()
    config.set("mode", "max-autotune" if mode == "max-autotune" else "reduce-overhead")
    config.debug.run_eagerly = mode == "run_eagerly"
    config.air.unsupported = "eager"
    backend = air_backend.get_npu_backend(compiler_config=config)
    if mode == "eager":
        return function
    return torch.compile(function, backend=backend, fullgraph=True, dynamic=False)


@pytest.mark.parametrize("mode", PRINTING)
def test_G36_npu_print_prints_in_every_call(mode: str, capfd: pytest.CaptureFixture[str]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        air_backend.ops.npu_print("y is", y, 3)
        return y + 1

    call = printing(function, mode)
    for start in (0.0, 1.0, 2.0):
        torch.testing.assert_close(call(torch.full((3,), start)), torch.full((3,), 2 * start + 1))
    printed = [line for line in capfd.readouterr().out.splitlines() if line.startswith("y is")]
    lines = [f"y is [{' '.join([f'{2 * start:g}'] * 3)}] 3" for start in (0.0, 1.0, 2.0)]
    assert list(dict.fromkeys(printed)) == lines


@pytest.mark.parametrize("mode", PRINTING)
def test_G36_npu_print_shows_booleans_as_the_engine_does_in_every_mode(
    mode: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        air_backend.ops.npu_print("above is", x > 1, True)
        return x + 1

    printing(function, mode)(torch.arange(3.0))
    printed = {line for line in capfd.readouterr().out.splitlines() if line.startswith("above is")}
    assert printed == {"above is [0 0 1] True"}


def test_G36_a_long_axis_is_shortened_and_details_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    air_backend.ops.npu_print("{}", torch.arange(20).view(2, 10), summarize_size=2, tensor_detail=True)
    assert (
        capfd.readouterr().out
        == "{} tensor([[0 1 ... 8 9]\n [10 11 ... 18 19]], shape=[2, 10], dtype=torch.int64)\n"
    )


@pytest.mark.parametrize(
    ("args", "options", "builtin"),
    [
        (("text",), {}, ValueError),
        ((torch.ones(1), [1]), {}, TypeError),
        ((torch.ones(1),), {"summarize_size": 0}, ValueError),
        ((torch.ones(1),), {"summarize_size": 3.2}, TypeError),
        ((torch.ones(1),), {"tensor_detail": 1}, TypeError),
    ],
)
def test_G36_what_cannot_be_printed_is_refused_as_torchair_refuses_it(
    args: Any, options: Any, builtin: type[Exception]
) -> None:
    with pytest.raises(BadPrint) as raised:
        air_backend.ops.npu_print(*args, **options)
    assert isinstance(raised.value, builtin)


def test_G36_truth_values_are_printed_as_the_engine_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    air_backend.ops.npu_print(torch.tensor([True, False]), torch.tensor(True))
    assert capsys.readouterr().out.split() == ["[1", "0]", "1"]


@pytest.mark.npu("it is about torch_npu's own modules and formats")
def test_G36_a_graph_captured_on_a_device_does_not_print_and_says_so() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        air_backend.ops.npu_print(x)
        return x + 1

    with pytest.raises(BadPrint, match="cannot call the host"):
        torch.compile(function, backend="air", mode="reduce-overhead")(torch.ones(2).to("npu"))
