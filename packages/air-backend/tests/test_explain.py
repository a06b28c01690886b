"""`explain` says what was decided, as data, text and a page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from air_backend import CompilerConfig, bisect, errors, explain, scope

LIBRARY = torch.library.Library("air_backend_explain", "FRAGMENT")


def cache_step(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    y = torch.relu(x + 1)
    cache.index_copy_(0, at, y)
    return cache.sum(0)


def arguments() -> tuple[Tensor, ...]:
    return torch.zeros(8, 4), torch.randn(2, 4), torch.tensor([1, 5])


def reduce_overhead() -> CompilerConfig:
    config = CompilerConfig()
    config.mode = "reduce-overhead"
    return config


def test_N07_the_report_has_passes_refusals_inputs_and_streams_of_each_graph() -> None:
    report = explain(cache_step, *arguments(), compiler_config=reduce_overhead())
    (graph,) = report.data["graphs"]
    assert graph["executor"] == "reduce-overhead"
    assert graph["device"] == "cpu"
    names = [step["name"] for step in graph["passes"]]
    assert "reinplace_input_mutated" in names
    assert {entry["kind"] for entry in graph["reduce-overhead"]["inputs"]} >= {"mutated", "copied"}
    assert graph["streams"] == {"streams": 1}


def test_N07_a_refusal_names_the_users_line() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        return torch.relu(y), y + 1

    report = explain(function, torch.randn(4), compiler_config=reduce_overhead())
    refusals = [refusal for step in report.data["graphs"][0]["passes"] for refusal in step["refusals"]]
    assert any("test_explain.py" in str(refusal) and "relu" in str(refusal) for refusal in refusals)


def test_graph_breaks_and_every_graph_between_them_are_reported() -> None:
    def function(x: Tensor) -> Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    data: Any = explain(function, torch.randn(4), compiler_config=reduce_overhead()).data
    assert len(data["graphs"]) == 2
    assert [each["count"] for each in data["graph breaks"]] == [1]


def test_a_branch_on_values_is_a_graph_break_with_its_line() -> None:
    def function(x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x + 1
        return x - 1

    data: Any = explain(function, torch.ones(4), compiler_config=reduce_overhead()).data
    assert len(data["graphs"]) == 2
    (broken,) = data["graph breaks"]
    assert broken["reason"] == "a condition that depends on the values of a tensor"
    assert re.search(r"test_explain\.py:\d+   if x\.sum\(\) > 0:", broken["where"])
    assert broken["count"] == 1


def breaks_of_torch(x: Tensor) -> Any:
    y = x + 1
    print("hello")
    places = (y > 0).nonzero()
    return y.sum().item() + places.shape[0]


def prints(x: Tensor) -> Tensor:
    x = x + 1
    print("deep")
    return x * 2


def test_a_break_that_torch_makes_has_its_line_its_explanation_and_its_hints() -> None:
    data: Any = explain(breaks_of_torch, torch.randn(4)).data
    lines = [each["where"].partition("   ")[2] for each in data["graph breaks"]]
    assert lines == [
        'print("hello")',
        "places = (y > 0).nonzero()",
        "return y.sum().item() + places.shape[0]",
    ]
    for each in data["graph breaks"]:
        assert "test_explain.py:" in each["where"]
        assert "\n" not in each["reason"] + each["explanation"] + "".join(each["hints"])
        assert each["hints"]
        assert each["more"].startswith("https://")
    assert "gb0036" in data["graph breaks"][1]["more"], "an address and not a sentence with one"


def test_a_break_in_a_function_that_is_called_has_the_line_there_and_how_often_it_was_met() -> None:
    data: Any = explain(lambda x: prints(prints(x)) + 1, torch.ones(3)).data
    assert {each["where"].partition("   ")[2] for each in data["graph breaks"]} == {'print("deep")'}
    assert sum(each["count"] for each in data["graph breaks"]) == data["summary"]["graph breaks"] == 3


def test_a_break_in_a_loop_names_the_function_that_runs_eagerly() -> None:
    def loop(x: Tensor) -> Tensor:
        for _ in range(2):
            x = prints(x)
            print("again")
        return x

    def function(x: Tensor) -> Tensor:
        return loop(x * 2) + 1

    found = {each["reason"]: each for each in explain(function, torch.ones(3)).data["graph breaks"]}
    (reason,) = (each for each in found if "in a loop of" in each)
    assert reason == "Failed to trace builtin operator, in a loop of loop, which runs eagerly for that"
    assert re.search(r"test_explain\.py:\d+   def loop\(x: Tensor\)", found[reason]["where"])


def test_breaks_of_an_earlier_call_are_not_reported() -> None:
    torch.compile(breaks_of_torch, backend="eager")(torch.ones(4))
    data: Any = explain(lambda x: x + 1, torch.ones(4)).data
    assert data["graph breaks"] == []


def test_the_text_begins_with_a_summary_and_ends_with_passes_and_seconds() -> None:
    text = explain(breaks_of_torch, torch.randn(4), compiler_config=reduce_overhead()).to_text()
    lines = text.splitlines()
    assert lines[2:9] == [
        "summary:",
        "  graphs: 3",
        "  graph breaks: 3",
        "  calls run eagerly: 0",
        "  pieces: 3",
        "  captures: 3",
        "  operators run eagerly: 0",
    ]
    assert (
        text.index("graph breaks:\n") < text.index("inputs:") < text.index("passes:") < text.index("seconds:")
    )
    assert not [line for line in lines if line.strip() in ("", "-")], "an entry begins beside its dash"
    assert "\n  - reason: Failed to trace builtin operator\n    where: " in text


def test_the_page_shows_where_a_graph_was_broken_and_why() -> None:
    page = explain(breaks_of_torch, torch.randn(4)).to_html()
    assert "<h2>Graph breaks</h2>" in page
    assert "Failed to trace builtin operator<p" in page
    assert "places = (y &gt; 0).nonzero()" in page


def test_options_are_named_as_a_user_writes_them() -> None:
    config = reduce_overhead()
    config.air.adaptive_slots = 5
    data: Any = explain(cache_step, *arguments(), compiler_config=config).data
    options = data["graphs"][0]["reduce-overhead"]["options"]
    assert options["air.adaptive_slots"] == 5
    assert "bind_after" not in options


@pytest.mark.parametrize("call", [explain, bisect])
def test_a_configuration_of_another_type_is_refused_with_the_call(call: Any) -> None:
    with pytest.raises(
        errors.OptionsOfWrongType, match=rf"(?s){call.__name__}.*got a dict.*CompilerConfig.from_options"
    ):
        call(torch.sin, torch.ones(4), compiler_config={"mode": "reduce-overhead"})


def test_notices_are_part_of_the_report() -> None:
    config = CompilerConfig()
    config.debug.aclgraph.clone_input = False
    report = explain(cache_step, *arguments(), compiler_config=config)
    assert any("clone_input" in notice for notice in report.data["graphs"][0]["notices"])


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_the_report_is_text_json_and_one_page(mode: str) -> None:
    config = CompilerConfig()
    config.set("mode", mode)
    report = explain(cache_step, *arguments(), compiler_config=config)
    assert json.loads(report.to_json())["function"] == "cache_step"
    assert "executor: " + mode in report.to_text()
    page = report.to_html()
    assert page.startswith("<!doctype html>")
    assert not re.findall(r"(?:src|href)\s*=|https?://|@import|url\(", page)
    assert mode in page


def test_N07_a_report_is_saved_by_the_ending_of_the_name(tmp_path: Path) -> None:
    report = explain(cache_step, *arguments(), compiler_config=reduce_overhead())
    assert report.save(tmp_path / "report.html").read_text() == report.to_html()
    assert json.loads(report.save(tmp_path / "report.json").read_text())["function"] == "cache_step"
    assert report.save(tmp_path / "report.txt").read_text() == report.to_text()
    with pytest.raises(errors.UnknownEnding, match=r"use one of: \.html, \.json, \.txt"):
        report.save(tmp_path / "report.pdf")


def test_N07_converters_are_named_with_what_each_operator_became() -> None:
    config = CompilerConfig()
    config.mode = "max-autotune"
    report = explain(lambda x: torch.relu(x @ x).sum(-1), torch.randn(4, 4), compiler_config=config)
    (graph,) = report.data["graphs"]
    found = {entry["operator"]: entry for entry in graph["converters"]}
    assert found["aten.relu.default"]["becomes"] == ["Relu"]
    assert found["aten.mm.default"]["by"].startswith("air_geir.converters.")
    assert all(entry["becomes"] for entry in found.values())


def test_N07_what_runs_eagerly_between_pieces_has_its_reason_and_line() -> None:
    config = CompilerConfig()
    config.mode = "max-autotune"
    config.air.unsupported = "eager"
    LIBRARY.define("untranslated(Tensor x) -> Tensor")
    LIBRARY.impl("untranslated", lambda x: x * 3, "CPU")
    LIBRARY.impl("untranslated", torch.empty_like, "Meta")
    report = explain(
        lambda x: torch.ops.air_backend_explain.untranslated(x + 1) * 2,
        torch.randn(4),
        compiler_config=config,
    )
    eager = [entry for graph in report.data["graphs"] for entry in graph.get("eager", [])]
    assert [entry["operator"] for entry in eager] == ["air_backend_explain.untranslated.default"]
    assert "neither a converter nor a decomposition" in eager[0]["because"]
    assert "test_explain.py" in eager[0]["where"]


@pytest.mark.filterwarnings("ignore::air_streams.StreamRaceWarning")
def test_N07_streams_have_their_operators_and_findings() -> None:
    def two_streams(x: Tensor) -> Tensor:
        y = torch.sin(x)
        with scope.npu_stream_switch("1"):
            z = torch.cos(y)
        return y + z

    report = explain(two_streams, torch.randn(4), compiler_config=reduce_overhead())
    (graph,) = report.data["graphs"]
    assert graph["streams"]["operators"] == {"entry stream": 2, "stream '1'": 1}
    assert any("torch.cos(y)" in finding for finding in graph["streams"]["findings"])


def test_a_call_of_which_torch_makes_no_graph_is_said_to_run_eagerly() -> None:
    def by_expert(x: torch.Tensor, expert: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        for number in range(3):
            (rows,) = torch.where(expert == number)
            if rows.numel() == 0:
                continue
            out.index_add_(0, rows, x[rows] * 2)
        return out

    report = explain(by_expert, torch.randn(4, 8), torch.tensor([0, 1, 1, 0]))
    assert report.data["graphs"] == []
    assert "torch made no graph of it" in report.to_text()
    assert "torch made no graph of it" in report.to_html()


def test_a_function_may_be_explained_any_number_of_times() -> None:
    def function(x: Tensor) -> Tensor:
        return x * 3

    made = [len(explain(function, torch.ones(2)).data["graphs"]) for _ in range(12)]
    assert made == [1] * 12


class Doubles(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


def compiled_forward() -> Any:
    module: Any = Doubles()
    module.forward = torch.compile(module.forward, backend="air")
    return module


def compiled_in_place() -> Any:
    module = Doubles()
    module.compile(backend="air")
    return module


ALREADY = {
    "function": lambda: torch.compile(lambda x: x + 1, backend="air"),
    "module": lambda: torch.compile(Doubles(), backend="air"),
    "method": lambda: torch.compile(Doubles().forward, backend="air"),
    "forward": compiled_forward,
    "in place": compiled_in_place,
}


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("kind", ALREADY)
def test_what_is_compiled_already_is_explained_as_it_is_written(kind: str, called: bool) -> None:
    compiled = ALREADY[kind]()
    if called:
        compiled(torch.ones(2))
    places = "forward", "_compiled_call_impl"
    before = [vars(compiled).get(place) for place in places]
    report = explain(compiled, torch.ones(2), compiler_config=reduce_overhead())
    (graph,) = report.data["graphs"]
    assert graph["executor"] == "reduce-overhead", "as asked, not as it is compiled"
    assert [vars(compiled).get(place) for place in places] == before
