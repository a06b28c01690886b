"""An example passes when its README's command runs and prints what the README says; a notebook, when no cell raises."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from house import examples

ROOT = Path(__file__).resolve().parents[2]
README = "# One\n\n```bash\npython examples/one/one.py\n```\n\n```text\nthe answer\n```\n"


def example(root: Path, program: str, readme: str = README) -> Path:
    folder = root / "examples/one"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text(readme)
    (folder / "one.py").write_text(program)
    return folder


def test_the_command_runs_and_prints_what_is_promised(tmp_path: Path) -> None:
    assert examples.run(example(tmp_path, "print('the answer is 42')"), tmp_path) is None
    assert examples.command_of(README)[0] == sys.executable


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("print('no')", "promises"),
        ("raise SystemExit(3)", "exit code 3"),
        ("print(1/0)", "ZeroDivisionError"),
    ],
)
def test_a_program_that_fails_or_prints_something_else_is_told(
    tmp_path: Path, program: str, said: str
) -> None:
    assert said in str(examples.run(example(tmp_path, program), tmp_path))


@pytest.mark.parametrize(
    "program", ["print('the answer is 42')", "print('no')", "raise SystemExit(3)", "print(1/0)"]
)
def test_a_fork_is_judged_as_a_process_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(examples, "PRELOADED", [])
    folder = example(tmp_path, program)
    (forked,), alone = examples.run_forked([folder], tmp_path), examples.run(folder, tmp_path)
    assert str(forked).splitlines()[-1] == str(alone).splitlines()[-1]
    assert examples.main(tmp_path, ["--forked"]) == (alone is not None)


def test_a_command_that_is_not_python_is_not_forked(tmp_path: Path) -> None:
    folder = example(tmp_path, "", README.replace("python examples", "torchrun examples"))
    with pytest.raises(ValueError, match="torchrun"):
        examples.run_forked([folder], tmp_path)


def test_a_readme_without_a_command_is_told(tmp_path: Path) -> None:
    assert "what does its reader type" in str(examples.run(example(tmp_path, "", "# One\n"), tmp_path))


def test_a_name_that_is_no_example_is_a_usage_error(tmp_path: Path) -> None:
    example(tmp_path, "print('the answer')")
    assert examples.main(tmp_path, ["one"]) == 0
    with pytest.raises(SystemExit) as stopped:
        examples.main(tmp_path, ["two"])
    assert stopped.value.code == 2


def test_every_folder_of_examples_has_a_readme_with_a_command_and_is_in_the_index() -> None:
    index = (ROOT / "examples/README.md").read_text()
    folders = {path.parent for path in (ROOT / "examples").glob("*/*.py")}
    assert folders == set(examples.found(ROOT))
    for folder in folders:
        assert examples.command_of((folder / "README.md").read_text())
        assert f"]({folder.name}/README.md)" in index
    assert {folder.name for folder in folders} >= examples.HEAVY


def test_notebooks_are_kept_without_outputs() -> None:
    found = examples.notebooks(ROOT)
    assert len(found) == 3
    for path in found:
        for cell in json.loads(path.read_text())["cells"]:
            assert not cell.get("outputs"), path.name
            assert cell.get("execution_count") is None, path.name


def test_examples_of_air_sim_run_only_where_they_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example(tmp_path, "print('the answer')", README.replace("python examples", "air-sim run python examples"))
    assert examples.main(tmp_path) == 0
    assert "0 examples: 0 passed" in capsys.readouterr().out
    assert examples.is_simulated(tmp_path / "examples/one")
