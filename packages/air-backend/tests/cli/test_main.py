"""The `air` command, as a user types it; in this process where nothing has to happen before torch is imported."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import air_backend
from air_backend import _records, demo
from air_backend.cli import _demo, main
from air_backend.cli._main import COMMANDS

MODEL = """
import torch

def build():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    return model, (torch.randn(2, 4),)

def wrong():
    return 7

def single():
    return torch.relu, torch.randn(2, 4)

def unnamed():
    return torch.relu, (torch.randn(2, 4),), [1]

def wants(size):
    return size
"""


def air(*words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "air_backend.cli", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, cwd=cwd, env={**os.environ, **env}
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "model", raising=False)
    return tmp_path


def test_help_lists_the_commands_without_importing_torch() -> None:
    probe = (
        "import sys; from air_backend.cli import main\n"
        "try: main(['--help'])\n"
        "finally: assert 'torch' not in sys.modules"
    )
    ran = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    for name in ("demo", "doctor", "explain", "run"):
        assert name in ran.stdout


def test_demo_prints_what_it_did_as_a_table_or_as_json(
    host_demo: demo.DemoReport, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_demo, "run_demo", lambda ground: host_demo)
    assert main(["demo"]) == 0
    table = capsys.readouterr().out
    for mode in ("eager", "run_eagerly", "reduce-overhead", "max-autotune"):
        assert f"\n{mode} " in table
    assert table.endswith("every mode computes what eager computes\n")
    assert main(["demo", "--json"]) == 0
    rows = {row["mode"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["reduce-overhead"]["captures"] == 2
    assert rows["reduce-overhead"]["copies_removed"] == 8
    assert all(row["difference"] <= 1e-4 for row in rows.values())


def test_a_reader_that_has_enough_is_no_error(
    host_demo: demo.DemoReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_demo, "run_demo", lambda ground: host_demo)
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as screen:
        monkeypatch.setattr(sys, "stdout", screen)
        assert main(["demo"]) == 0
        monkeypatch.undo()


def test_doctor_says_what_is_there_and_what_to_do_about_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--json"])
    findings = {finding["subject"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert findings["torch"]["state"] == "ok"
    assert findings["compile"]["state"] == "ok", findings["compile"]
    for finding in findings.values():
        assert finding["state"] == "ok" or finding["advice"]


def test_without_mode_and_option_explain_takes_the_configuration_that_the_function_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "compiled.py"
    file.write_text(
        "import torch\n"
        "def build():\n"
        "    f = torch.compile(lambda x: x + 1, backend='air', mode='reduce-overhead')\n"
        "    return f, (torch.ones(2),)\n"
    )
    assert main(["explain", f"{file}:build"]) == 0
    assert "configuration: that of torch.compile" in capsys.readouterr().out
    assert main(["explain", f"{file}:build", "--mode", "max-autotune"]) == 0
    assert "configuration: given to this call" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_explain_reports_a_function_of_a_file(
    folder: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    words = {"text": [], "json": ["--json"], "html": ["--html", "report.html"]}[form]
    assert main(["explain", "model.py:build", "--mode", "reduce-overhead", *words]) == 0
    said = capsys.readouterr().out
    assert "reinplace_inplaceable" in ((folder / "report.html").read_text() if form == "html" else said)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model.py"], "is not MODULE:FUNC"),
        ([":build"], "':build' is not MODULE:FUNC"),
        ([".model:build"], "'.model' is relative to a package (write the whole name"),
        (["missing.py:build"], "there is no file missing.py"),
        (
            ["missing:build"],
            "there is no module 'missing' here or on sys.path (a file: missing.py)",
        ),
        (["model.py:nothing"], "has no function 'nothing'; it has build, wrong, single, unnamed"),
        (["model.py:wrong"], "must give (function, args)"),
        (["model.py:single"], "must give a list or tuple as args; it gives a Tensor"),
        (["model.py:unnamed"], "must give a dict as kwargs; it gives a list"),
        (["model.py:wants"], "wants arguments (missing a required argument: 'size')"),
        (["model.py:torch"], "model.py:torch is a module"),
        (["model:build", "--option", "capture_limit"], "is not NAME=VALUE"),
    ],
)
@pytest.mark.parametrize("command", ["explain", "bisect"])
def test_a_command_says_what_is_wrong_with_its_target(
    folder: Path, command: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, *words])
    assert ended.value.code == 2, "as for every other wrong use"
    assert message in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_said_before_anything_is_compiled(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from air_backend.cli import _explain

    monkeypatch.setattr(_explain, "explain", None)
    assert main(["explain", "model.py:build", "--html", "no/folder.html"]) == 2
    assert "the page cannot be written" in (said := capsys.readouterr().err)
    assert "make the folder first" in said
    assert "Traceback" not in said


def test_the_command_tells_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"air {air_backend.__version__}\n"


def test_what_needs_the_sources_is_listed_where_they_are(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = []
    for place in (folder, Path(__file__).parent):
        monkeypatch.chdir(place)
        with pytest.raises(SystemExit):
            main(["--help"])
        listed.append("bench" in capsys.readouterr().out)
    assert listed == [False, True]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_table_of_doctor_fits_the_terminal_and_names_our_version(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from air_backend.cli import _doctor
    from air_backend.doctor import _checks

    monkeypatch.setenv("COLUMNS", str(columns))
    found = [check() for check in _checks.CHECKS if check is not _checks.check_compile]
    monkeypatch.setattr(_doctor, "examine", lambda: found)
    main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    assert any(line.startswith("AIR") and air_backend.__version__ in line for line in lines)
    words = " ".join(" ".join(lines).split())
    if columns < 80:  # words are folded as well
        return
    assert all(word in words for finding in found for word in finding.advice.split()), "nothing is cut off"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mode", "turbo"], "UnknownMode: there is no mode 'turbo'"),
        (["--option", "capture_limits=3"], "did you mean 'capture_limit'"),
        (["--option", "colour=red"], "python -m air_config show --all"),
        (["--option", "capture_limit=many"], "an int from 1 up"),
        (["--mode", "max-autotune", "--option", "air.engine=atc"], "RefusedOption"),
    ],
)
def test_an_error_of_air_is_its_text_and_not_a_traceback(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["explain", "model.py:build", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("air explain: ")
    assert message in said
    assert "Traceback" not in said


def test_an_error_of_the_users_code_keeps_its_traceback(folder: Path) -> None:
    (folder / "model.py").write_text("def build():\n    raise KeyError('mine')\n")
    with pytest.raises(KeyError, match="mine"):
        main(["explain", "model.py:build"])


def test_run_gives_the_script_air_under_the_name_torchair_and_its_arguments(folder: Path) -> None:
    (folder / "script.py").write_text(
        "import sys, torchair\nprint(torchair.get_npu_backend.__module__, sys.argv[1:], __name__)\n"
    )
    ran = air("run", "script.py", "--sim", "-x", cwd=folder, BREAK_GRAPH_OP_LIST="SLICE")
    assert ran.stdout.strip() == "air_backend._backend ['--sim', '-x'] __main__"
    assert ran.stderr.count("BREAK_GRAPH_OP_LIST=SLICE is ignored") == 1


def test_run_without_a_script_asks_for_one_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run"])
    assert capsys.readouterr().err.endswith("the following arguments are required: script\n")


def test_run_of_a_missing_script_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "nothing.py"]) == 2
    assert "there is no script nothing.py" in capsys.readouterr().err


@pytest.mark.parametrize("lacking", [["torch_npu"], ["air_sim"], ["air_sim", "torch_npu"]])
def test_sim_without_what_it_needs_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lacking: list[str]
) -> None:
    there = importlib.machinery.ModuleSpec("there", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in lacking else there)
    for package in lacking:
        monkeypatch.delitem(sys.modules, package, raising=False)
    assert main(["demo", "--sim"]) == 2
    said = capsys.readouterr().err
    assert f"--sim needs {' and '.join(lacking).replace('air_', 'air-')}: not installed" in said
    assert "install it: pip install 'air-backend[npu,sim]'" in said


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "mode",
    ["default", "npugraph_ex", "checked", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"],
)
def test_explain_takes_every_mode_that_torch_compile_takes(
    folder: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    import torch

    assert main(["explain", "model.py:build", "--mode", mode, "--json"]) == 0
    (graph,) = json.loads(capsys.readouterr().out)["graphs"]
    torch._dynamo.reset()
    before = {id(record) for record, _ in _records.alive()}
    compiled = torch.compile(lambda x: x + 1, backend="air", mode=mode)
    compiled(torch.ones(2))
    (record,) = [record for record, _ in _records.alive() if id(record) not in before]
    assert graph["executor"] == record.executor


def test_the_readme_lists_every_command() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    assert [name for name in COMMANDS if f"`air {name}" not in readme] == []


def test_an_error_sends_to_a_published_page_of_this_version() -> None:
    from air_config.published import document
    from air_geir.lowering import cannot_lower
    from air_graph.pieces import LeftOut

    told = str(cannot_lower("graph_0", [LeftOut("one", "mylib.one.default", "has no converter")]))
    assert document("writing-a-converter") in told
    assert f"/{air_backend.__version__}/writing-a-converter/" in told
    assert "config.air.unsupported = 'split'" in told
    assert "fallback" not in told
    root = Path(__file__).parents[4]
    named = [
        (file.name, found)
        for package in (root / "packages").glob("air-*")
        for file in (package / "src").rglob("*.py")
        for found in re.findall(r"document\(['\"]([\w/-]+)['\"]\)", file.read_text("utf-8"))
    ]
    assert len(named) >= 5
    assert [each for each in named if not (root / "docs" / f"{each[1]}.md").is_file()] == []


@pytest.mark.parametrize("before", [[], ["--"]])
def test_a_script_gets_its_words_as_python_gives_them(
    before: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "words.py"
    script.write_text("import sys; print(sys.argv[1:])")
    monkeypatch.setattr("air_backend._alias.install_as_torchair", lambda: None)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert main(["run", *before, str(script), "--", "-x", "--", "--sim"]) == 0
    assert capsys.readouterr().out == "['--', '-x', '--', '--sim']\n"
