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
    ],
)
def test_bad_input_is_an_error_that_says_what_to_write(
    model: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([a.format(model=model) for a in arguments]) == 2
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
