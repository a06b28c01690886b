"""Models written as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing._internal.distributed.fake_pg import FakeStore

from air_config import CompilerConfig, RefusedOption
from air_geir import file
from air_geir.engines import EngineOptions, bind
from air_geir.errors import ExportError, UnsupportedGraphError
from air_geir.export import Exported, as_data, dynamo_export
from air_geir.ir import Graph
from air_geir.program import ArgInput, GraphOutput, Program
from air_geir.reference import ReferenceEngine

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


class Block(torch.nn.Module):
    """A transformer block."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(32)
        self.qkv = torch.nn.Linear(32, 96)
        self.out = torch.nn.Linear(32, 32)

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(batch, tokens, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = torch.softmax(q @ k.transpose(-1, -2) * 8**-0.5, -1) @ v
        result: torch.Tensor = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width)) * scale
        return result


class Counter(torch.nn.Module):
    """A module that writes its buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))
        self.weight = torch.nn.Parameter(torch.randn(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x)  # type: ignore[operator]  # a buffer
        return x * self.weight


def run(graph: Graph, *args: torch.Tensor) -> list[torch.Tensor]:
    """A file's graph on the reference engine."""
    count = len(graph.outputs)
    inputs = tuple(map(ArgInput, range(len(graph.inputs))))
    made = Program(graph, inputs, tuple(map(GraphOutput, range(count))), len(inputs))
    return bind(made, ReferenceEngine().compile(made, EngineOptions({}, {})))(*args)


def export(tmp_path: Path, **options: object) -> tuple[Exported, Block]:
    torch.manual_seed(0)
    model = Block().eval()
    scale = torch.tensor(2.0)
    made = dynamo_export(torch.randn(2, 5, 32), model=model, export_path=tmp_path, scale=scale, **options)  # type: ignore[arg-type]  # keywords
    return made, model


def test_G20_an_exported_block_equals_eager(tmp_path: Path) -> None:
    made, model = export(tmp_path)
    assert [p.name for p in made.files] == ["export.air", "dynamo.pbtxt"]
    x, scale = torch.randn(2, 5, 32), torch.tensor(0.5)
    (result,) = run(file.read(made.model), x, scale)
    torch.testing.assert_close(result, model(x, scale=scale))


def test_G20_a_result_that_is_an_argument_or_a_weight_is_in_the_file_where_the_model_has_it(
    tmp_path: Path,
) -> None:
    class Returning(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(3))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y.add_(1)
            return x, y * 2, self.weight, y, x

    model, x, y = Returning(), torch.randn(3), torch.randn(3)
    made = dynamo_export(x, y.clone(), model=model, export_path=tmp_path)
    x, y = torch.randn(3), torch.randn(3)
    results = run(file.read(made.model), x, y.clone())
    torch.testing.assert_close(results, list(model(x, y)))


class Spread(torch.nn.Module):
    """Any number of arguments, and keywords."""

    def forward(self, *parts: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        return torch.cat(parts) * scale + shift


def test_G20_all_sizes_vary_whatever_way_the_arguments_are_given(tmp_path: Path) -> None:
    first: Any = {"shift": torch.randn(3), "scale": torch.randn(5, 1)}
    made = dynamo_export(
        torch.randn(2, 3), torch.randn(3, 3), model=Spread(), export_path=tmp_path, dynamic=True, **first
    )
    parts, scale, shift = (torch.randn(4, 6), torch.randn(1, 6)), torch.randn(5, 1), torch.randn(6)
    graph = file.read(made.model)
    given = {"parts_0": parts[0], "parts_1": parts[1], "scale": scale, "shift": shift}
    (result,) = run(graph, *(given[node.name] for node in graph.inputs))
    torch.testing.assert_close(result, Spread()(*parts, scale=scale, shift=shift))


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.filterwarnings("ignore:The tensor attributes")
def test_G20_recurrent_layers_are_written_step_by_step(kind: type[torch.nn.Module], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = kind(3, 4, num_layers=2, bidirectional=True, batch_first=True).eval()
    given = torch.randn(2, 5, 3)
    made = dynamo_export(given, model=model, export_path=tmp_path)
    x = torch.randn(2, 5, 3)
    with torch.no_grad():
        expected, _ = model(x)
    torch.testing.assert_close(run(file.read(made.model), x)[0], expected)


@pytest.mark.filterwarnings("ignore:The tensor attributes")
def test_G20_a_number_of_steps_that_varies_is_refused_with_the_reason(tmp_path: Path) -> None:
    model = torch.nn.LSTM(3, 4).eval()
    with pytest.raises(UnsupportedGraphError, match="the number of steps varies"):
        dynamo_export(torch.randn(5, 2, 3), model=model, export_path=tmp_path, dynamic=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_G49_an_exported_program_becomes_a_graph_its_bytes_and_what_each_node_became(dynamic: bool) -> None:
    torch.manual_seed(0)
    model, scale = Block().eval(), torch.tensor(0.5)
    sizes = {"x": {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}, "scale": {}} if dynamic else None
    exported = torch.export.export(
        model, (torch.randn(2, 5, 32),), {"scale": scale}, dynamic_shapes=sizes, strict=False
    )
    before = str(exported.graph)
    data = as_data(exported, name="block")
    x = torch.randn(3, 7, 32) if dynamic else torch.randn(2, 5, 32)
    (result,) = run(file.from_bytes(data.message), x, scale)
    torch.testing.assert_close(result, model(x, scale=scale))
    assert str(exported.graph) == before
    calls = {n.name: n.target for n in data.functional.graph.nodes if n.op == "call_function"}
    assert set(data.operators) == set(calls)
    (softmax,) = (name for name, target in calls.items() if target is torch.ops.aten.softmax.int)
    assert [n.op_type for n in data.operators[softmax]] == ["SoftmaxV2"]
    made = [node for nodes in data.operators.values() for node in nodes]
    assert len(made) == len(set(made))
    assert all(node.graph is data.graph for node in made)


def test_G49_a_program_with_missing_operators_is_told_all_of_them() -> None:
    class Missing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.linalg.qr(x)[0], torch.linalg.svdvals(x)

    exported = torch.export.export(Missing(), (torch.randn(3, 3),))
    with pytest.raises(UnsupportedGraphError) as caught:
        as_data(exported)
    assert len({u.target for u in caught.value.found}) == 2
    assert "unsupported" not in caught.value.advice  # torch runs nothing beside an exported graph


def test_a_dynamic_export_takes_other_sizes(tmp_path: Path) -> None:
    made, model = export(tmp_path, dynamic=True)
    graph = file.read(made.model)
    assert graph.inputs[0].output.desc.file_shape() == (-1, -1, 32)
    for shape in ((2, 5, 32), (3, 7, 32)):
        x, scale = torch.randn(shape), torch.tensor(1.5)
        (result,) = run(graph, x, scale)
        torch.testing.assert_close(result, model(x, scale=scale))


def test_large_weights_are_raw_files_named_after_them(tmp_path: Path) -> None:
    made, model = export(tmp_path, inline_limit=100)
    names = {p.name for p in made.files}
    assert {"qkv_weight", "out_weight"} <= names
    assert (tmp_path / "qkv_weight").read_bytes() == model.qkv.weight.detach().numpy().tobytes()
    constant = file.read(made.model).node("qkv.weight")
    assert constant.op_type == "FileConstant"
    assert constant.attr("shape") == (96, 32)


def test_a_transposed_weight_is_written_as_it_is_seen(tmp_path: Path) -> None:
    model = Counter()
    model.weight = torch.nn.Parameter(torch.randn(3, 3).t()[1])
    made = dynamo_export(torch.randn(3), model=model, export_path=tmp_path)
    held = file.read(made.model).node("weight").attr("value").tensor()
    assert torch.equal(held, model.weight)


def test_a_written_buffer_is_refdata_and_assigned(tmp_path: Path) -> None:
    made = dynamo_export(torch.randn(3), model=Counter(), export_path=tmp_path)
    graph = file.read(made.model)
    (written,) = graph.of_type("RefData")
    assert written.attr("_origin_data_name") == "b_seen"
    (assign,) = graph.of_type("Assign")
    assert assign in graph.net_output.control_inputs
    assert [n.attr("index") for n in graph.inputs] == [0, 1]


def test_G22_module_paths_are_recorded_on_request(tmp_path: Path) -> None:
    config = CompilerConfig()
    config.export.experimental.enable_record_nn_module_stack = True
    made, _ = export(tmp_path, config=config)
    stacks = {str(n.attrs["nn_module_stack"].value) for n in made.graph if "nn_module_stack" in n.attrs}
    assert any("qkv" in s for s in stacks)


def test_one_export_does_not_change_the_next(tmp_path: Path) -> None:
    first, _ = export(tmp_path / "a")
    config = CompilerConfig()
    config.export.experimental.enable_record_nn_module_stack = True
    export(tmp_path / "b", config=config)
    second, _ = export(tmp_path / "c")
    assert first.model.read_bytes() == second.model.read_bytes()


def test_a_symbolic_link_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(ExportError, match="symbolic link"):
        export(tmp_path / "link")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(2, {}), (1, {"compiler_config": None}), (0, {})],
    ids=["many", "mistyped", "none"],
)
def test_arguments_that_forward_does_not_take_are_told_from_a_model_that_is_no_graph(
    tmp_path: Path, arguments: int, named: dict[str, Any]
) -> None:
    given = [torch.randn(3, 4)] * arguments
    with pytest.raises(ExportError, match="forward of Linear cannot be called") as told:
        dynamo_export(*given, model=torch.nn.Linear(4, 4), export_path=tmp_path, **named)
    assert "forward(input: torch.Tensor)" in told.value.advice
    assert "options of the export are model, export_path" in told.value.advice
    assert "draft_export" not in told.value.advice


def test_a_model_that_is_no_single_graph_is_an_error(tmp_path: Path) -> None:
    class Branching(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if bool(x.sum() > 0) else -x

    class Asserting(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise AssertionError  # says nothing

    with pytest.raises(ExportError, match="Branching is not a single graph"):
        dynamo_export(torch.randn(3), model=Branching(), export_path=tmp_path)
    with pytest.raises(ExportError, match="Asserting is not a single graph: AssertionError"):
        dynamo_export(torch.randn(3), model=Asserting(), export_path=tmp_path)


class Reduced(torch.nn.Module):
    """A layer whose result is summed over the ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        functional, group = torch.ops._c10d_functional, torch.distributed.group.WORLD
        assert group is not None
        summed = functional.all_reduce(self.layer(x), "sum", group.group_name)
        result: torch.Tensor = functional.wait_tensor(summed)
        return result


def test_G21_two_ranks_write_two_models_and_their_relation(tmp_path: Path) -> None:
    """An export communicates with nobody: the ranks take turns in one process."""
    folder = tmp_path / "models"
    config = CompilerConfig()
    config.export.experimental.auto_atc_config_generated = True
    for rank in range(2):
        torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=2)
        try:
            dynamo_export(
                torch.randn(2, 4), model=Reduced(), export_path=folder, config=config, inline_limit=0
            )
        finally:
            torch.distributed.destroy_process_group()
    assert {
        "export0.air",
        "export1.air",
        "rank_0",
        "rank_1",
        "model_relation_config.json",
        "numa_config.json",
    } == {p.name for p in folder.iterdir()}
    relation = json.loads((folder / "model_relation_config.json").read_text())
    assert [d["submodel_name"] for d in relation["deploy_config"]] == ["export0", "export1"]
    assert [g["group_rank_list"] for g in relation["comm_group"]] == ["[0, 1]"]
    graph = file.read(folder / "export0.air")
    assert any(n.op_type == "HcomAllReduce" for n in graph)


class WritesBoth(torch.nn.Module):
    """A module that writes two arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(
        self, x: torch.Tensor, y: torch.Tensor, pair: dict[str, torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        x.mul_(2)
        mixed = self.linear(y) + pair["left"]
        y.add_(1)
        return mixed, x + pair["right"]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_G20_one_tensor_given_several_times_and_written_is_one_input(tmp_path: Path, dynamic: bool) -> None:
    model, x, left = WritesBoth().eval(), torch.randn(2, 4), torch.randn(2, 4)
    pair = {"left": left, "right": x}
    made = dynamo_export(x, x, pair, model=model, export_path=tmp_path, dynamic=dynamic)
    graph = file.read(made.model)
    assert len(graph.inputs) == 2
    assert len(list(graph.of_type("RefData"))) == 1
    for rows in (2, 5 if dynamic else 2):
        given, other = torch.randn(rows, 4), torch.randn(rows, 4)
        expected = model(eager := given.clone(), eager, {"left": other, "right": eager})
        results = run(graph, given, other)
        torch.testing.assert_close(results, list(expected))
    assert "forward" not in vars(model), "the model is left as it was"


def test_G20_arguments_that_overlap_and_are_written_are_still_refused(tmp_path: Path) -> None:
    x = torch.randn(2, 4)
    with pytest.raises(ExportError):
        dynamo_export(x, x[:1], {"left": x, "right": x}, model=WritesBoth(), export_path=tmp_path)


class Weighted(torch.nn.Module):
    """A module of two arguments."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * 2 + y


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_G20_one_tensor_given_as_two_arguments_that_are_read_is_two_inputs(
    tmp_path: Path, dynamic: bool
) -> None:
    x = torch.randn(3)
    graph = file.read(dynamo_export(x, x, model=Weighted(), export_path=tmp_path, dynamic=dynamic).model)
    (result,) = run(graph, x, torch.full((3,), 10.0))
    torch.testing.assert_close(result, x * 2 + 10)


class Remembers(torch.nn.Module):
    """A module whose buffers become what an argument is, and what one of them was."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(3))
        self.register_buffer("before", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.before.copy_(self.last)  # type: ignore[operator,arg-type]  # buffers
        self.last.copy_(x)  # type: ignore[operator]
        return x + 1


def test_G20_a_buffer_that_becomes_an_argument_is_written(tmp_path: Path) -> None:
    graph = file.read(dynamo_export(torch.randn(3), model=Remembers(), export_path=tmp_path).model)
    names = {node.attr("_origin_data_name"): node.attr("index") for node in graph.of_type("RefData")}
    assert set(names) == {"b_last", "b_before"}
    x, last, before = torch.randn(3), torch.full((3,), 2.0), torch.zeros(3)
    given = dict(zip(names.values(), (last if name == "b_last" else before for name in names), strict=True))
    (result,) = run(graph, *(given.get(at, x) for at in range(3)))
    torch.testing.assert_close(result, x + 1)
    torch.testing.assert_close(before, torch.full((3,), 2.0))
    torch.testing.assert_close(last, x)


class ReadsBefore(torch.nn.Module):
    """A module that gives back something of what its buffer was."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        before = self.seen.view(3, 1) * 2, self.seen.clone()  # type: ignore[operator]  # a buffer
        self.seen.add_(x)  # type: ignore[operator]
        return before


def test_G20_a_buffer_is_written_after_all_that_reads_it(tmp_path: Path) -> None:
    graph = file.read(dynamo_export(torch.randn(3), model=ReadsBefore(), export_path=tmp_path).model)
    (assign,) = graph.of_type("Assign")
    assert {node.op_type for node in assign.control_inputs} >= {"Mul", "TensorMove"}


@pytest.mark.parametrize("name", ["", ".", "..", "../out", "a/b", "a\0b", 5])
def test_a_name_that_is_no_name_of_a_file_is_refused_before_anything_is_written(
    name: Any, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match=r"export_name is .*not the name of a file"):
        dynamo_export(torch.ones(3), model=torch.nn.ReLU(), export_path=tmp_path / "out", export_name=name)
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_no_module_is_named(tmp_path: Path) -> None:
    function: Any = torch.relu
    with pytest.raises(ExportError, match=r"builtin_function_or_method, not a torch\.nn\.Module"):
        dynamo_export(torch.ones(3), model=function, export_path=tmp_path)


def test_an_option_that_an_export_does_not_read_leaves_a_notice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = CompilerConfig.from_options({"mode": "reduce-overhead", "air.engine": "atc"})
    with caplog.at_level("DEBUG", logger="air_config"):
        dynamo_export(torch.ones(3), model=torch.nn.ReLU(), export_path=tmp_path, config=config)
    for option in ("mode='reduce-overhead'", "air.engine='atc'"):
        assert f"{option} (explicit) is ignored: dynamo_export writes the graph" in caplog.text


def test_what_means_nothing_in_a_file_is_refused(tmp_path: Path) -> None:
    config = CompilerConfig.from_options({"frozen_parameter": True})
    with pytest.raises(RefusedOption, match="addresses of this process mean nothing in an exported graph"):
        dynamo_export(torch.ones(3), model=torch.nn.ReLU(), export_path=tmp_path, config=config)
