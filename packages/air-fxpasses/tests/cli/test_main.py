"""The `air-passes` command on files of a user."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from air_passes import main

MODEL = """
import torch

def model(x):
    old = x + 1
    new = old * 2
    return new.relu() - old.sum()

def build():
    return model, [torch.ones(3)]

def graph():
    from air_fxpasses.testing import functional_graph
    return functional_graph(model, torch.ones(3)), [torch.ones(3)]

def wrong():
    return 3
"""

OWN = """
from dataclasses import dataclass
from typing import ClassVar

import torch
from air_fxpasses import Pass, PassResult

aten = torch.ops.aten

@dataclass(frozen=True)
class MinusToPlus(Pass):
    factor: int = -1
    name: ClassVar[str] = "minus_to_plus"

    def __call__(self, gm, facts):
        found = list(gm.graph.find_nodes(op="call_function", target=aten.sub.Tensor))
        for node in found:
            turned = facts.insert_before(node, aten.mul.Tensor, (node.args[1], self.factor))
            facts.replace_uses(node, facts.insert_before(node, aten.add.Tensor, (node.args[0], turned)))
            facts.erase(node)
        return PassResult(bool(found), (), (f"{len(found)} differences are sums",) if found else ())

class WithArguments(MinusToPlus):
    def __init__(self, factor): ...

ready = MinusToPlus(factor=-1)
wrong = MinusToPlus(factor=2)
number = 3

def runs_nothing(gm): ...

def three(gm, example_inputs, config): ...
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "my_passes.py"
    path.write_text(OWN)
    return str(path)


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return str(path)


@pytest.mark.parametrize("name", ["build", "graph"])
def test_show_prints_the_graph_around_each_pass_and_the_reasons(
    model: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", f"{model}:{name}", "--verify"]) == 0
    text = capsys.readouterr().out
    assert "aten.relu.default" in text
    assert "-- after reinplace_inplaceable" in text
    assert "aten.relu_.default" in text
    assert "the old value is read later" in text


def test_only_runs_the_passes_asked_for_and_json_is_all_that_is_printed(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", f"{model}:build", "--only", "reinplace_inplaceable", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [step["name"] for step in data[0]["steps"]] == ["reinplace_inplaceable"]


@pytest.mark.parametrize("name", ["MinusToPlus", "ready"])
def test_a_pass_of_ones_own_runs_before_the_others_or_alone(
    model: str, own: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["show", f"{model}:build", "--pass", f"{own}:{name}", "--verify"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "1 differences are sums" in text
    assert text.index("-- after minus_to_plus") < text.index("-- after reinplace_inplaceable")
    assert main([*words, "--only", "minus_to_plus", "--json"]) == 0
    (data,) = json.loads(capsys.readouterr().out)
    assert [(step["name"], step["modified"]) for step in data["steps"]] == [("minus_to_plus", True)]


def test_a_function_is_a_pass_and_a_wrong_pass_is_found_out(
    model: str, own: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["show", f"{model}:build", "--verify", "--pass"]
    assert main([*words, f"{own}:runs_nothing", "--only", "runs_nothing"]) == 0
    assert "runs_nothing" in capsys.readouterr().out
    assert main([*words, f"{own}:wrong"]) == 1
    assert "rolled back" in capsys.readouterr().out


def test_a_file_finds_its_neighbours_and_a_module_stands_for_it(
    model: str, own: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path(model).read_text()
    Path(model).write_text(text.replace("import torch", "import torch\nfrom my_passes import ready", 1))
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("model", "my_passes"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert main(["show", f"{model}:build", "--pass", f"{model}:ready", "--only", "minus_to_plus"]) == 0
    monkeypatch.chdir(Path(model).parent)
    assert main(["show", "model:build", "--pass", "my_passes:MinusToPlus"]) == 0
    assert capsys.readouterr().out.count("1 differences are sums") == 2


def test_html_has_both_graphs_side_by_side(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert main(["show", f"{model}:build", "--html", str(page)]) == 0
    text = page.read_text()
    assert "<h2>reinplace_inplaceable</h2>" in text
    assert "diff_chg" in text or "diff_add" in text
    assert "the old value is read later" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "nowhere.py:build"], "there is no file nowhere.py"),
        (["show", "nowhere"], "write file.py:function"),
        (["show", "{model}:missing"], "has no function missing"),
        (["show", "{model}:wrong"], "return a GraphModule, or a pair"),
        (
            ["show", "{model}:build", "--only", "fly"],
            "there is no pass fly\n  advice  there are eliminate_dead_code",
        ),
        (["show", "{model}:build", "--only", "fly"], "--pass file.py:name adds one of your own"),
        (["show", "no.such.module:build"], "there is no module 'no' here or on sys.path"),
        (
            ["show", "{model}:build", "--pass", "{own}:number"],
            "is a int\n  advice  name a class derived from Pass",
        ),
        (
            ["show", "{model}:build", "--pass", "{own}:WithArguments"],
            "write `my_pass = WithArguments(...)` in the",
        ),
        (["show", "{model}:build", "--pass", "{own}:three"], "name a function of one argument, or a class"),
    ],
)
def test_bad_input_is_an_error_that_says_what_to_write(
    model: str, own: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([a.format(model=model, own=own) for a in arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_said_before_anything_is_compiled(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(model).write_text("def build(): raise AssertionError('not yet')")
    assert main(["show", f"{model}:build", "--html", "no/folder.html"]) == 2
    assert "the page cannot be written" in capsys.readouterr().err


def test_the_help_imports_no_torch_and_says_nothing_else() -> None:
    probe = (
        "import sys; from air_passes import main\n"
        "try: main(['--help'])\n"
        "finally: assert 'torch' not in sys.modules"
    )
    ran = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("usage: air-passes")
    assert ran.stderr == ""


def test_a_reader_that_has_enough_is_no_error(model: str) -> None:
    command = f'set -o pipefail; "{sys.executable}" -u -m air_passes show "{model}:build" | head -n 1'
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "== graph 0\n")
    assert "BrokenPipeError" not in ran.stderr
