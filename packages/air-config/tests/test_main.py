"""The command: it writes and checks the page, prints the schema, and shows what a place resolves to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from air_config import CompilerConfig
from air_config.__main__ import main
from air_config._reference import reference_page


def test_docs_writes_the_page_and_check_agrees(tmp_path: Path) -> None:
    page = tmp_path / "deep" / "config.md"
    assert main(["docs", "--check", "--output", str(page)]) == 1
    assert not page.exists()
    assert main(["docs", "--output", str(page)]) == 0
    assert page.read_text(encoding="utf-8") == reference_page()
    assert main(["docs", "--check", "--output", str(page)]) == 0


def test_check_says_what_changed_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "config.md"
    page.write_text(reference_page().replace("`air.sync`", "`air.synk`"), encoding="utf-8")
    before = page.read_text(encoding="utf-8")
    assert main(["docs", "--check", "--output", str(page)]) == 1
    told = capsys.readouterr().err
    assert "-| `air.synk`" in told
    assert "+| `air.sync`" in told
    assert "python -m air_config docs" in told
    assert page.read_text(encoding="utf-8") == before


def test_schema_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == CompilerConfig.json_schema()


def test_show_resolves_options_for_a_place(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["show", "-o", "mode=reduce-overhead", "-o", "static_kernel_compile=1", "--device", "cpu"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "refused by static-kernel-needs-npu" in out
    assert "air.engine" not in out
    assert main([*arguments, "--all"]) == 0
    assert "air.engine" in capsys.readouterr().out


def test_show_starts_from_a_file_or_a_preset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.json"
    file.write_text(CompilerConfig.from_options({"capture_limit": 3}).to_json())
    assert (
        main(["show", "--json", str(file), "--preset", "checked", "--soc", "Ascend910B3", "--cann", "8.5.0"])
        == 0
    )
    out = capsys.readouterr().out
    assert "static_capture_size_limit" in out
    assert "preset checked" in out


@pytest.mark.parametrize(
    "option", ["capture_limit", "captur_limit=3", "capture_limit=many", "capture_limit=0"]
)
def test_a_wrong_option_is_a_message_and_exit_1(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "-o", option]) == 1
    told = capsys.readouterr()
    assert "capture" in told.err
    assert "Traceback" not in told.err
    assert told.out == ""


@pytest.mark.parametrize(
    ("name", "why"), [("nope.json", "No such file"), (".", "Is a directory"), ("bytes", "not text in UTF-8")]
)
def test_a_file_that_cannot_be_read_is_a_message_and_exit_1(
    name: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    assert main(["show", "--json", str(tmp_path / name)]) == 1
    assert f"{tmp_path / name} cannot be read: " in (told := capsys.readouterr().err)
    assert why in told


def test_the_module_runs_as_a_command() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("AIR_")}
    run = subprocess.run(
        [sys.executable, "-m", "air_config", "show", "-o", "sync=auto", "-o", "mode=reduce-overhead"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "air.sync" in run.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["docs", "--output", "{here}/file/config.md"], "file"),
        (["docs", "--check", "--output", "{here}"], "cannot be read: Is a directory"),
        (["unread", "{here}/none"], "none is no folder"),
        (["unread", "{here}/file"], "file is no folder"),
        (["show", "-o", "static_kernel=1"], "'static_kernel' is a group of options"),
    ],
)
def test_what_cannot_be_used_is_said_in_a_sentence(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main([word.format(here=tmp_path) for word in words]) == 1
    assert told in capsys.readouterr().err


def run_in_shell(command: str, **env: str) -> subprocess.CompletedProcess[str]:
    shell = ["bash", "-c", f"set -o pipefail; {command}"]
    return subprocess.run(
        shell, capture_output=True, text=True, env={**os.environ, "PYTHON": sys.executable, **env}, timeout=60
    )


def test_a_reader_that_has_enough_is_no_error() -> None:
    ran = run_in_shell('"$PYTHON" -u -m air_config schema | head -n 1')
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "{\n", "")


def test_a_value_that_the_terminal_has_no_letters_for_is_shown_escaped() -> None:
    ran = run_in_shell('"$PYTHON" -m air_config show -o static_kernel.blacklist=ü', PYTHONIOENCODING="ascii")
    assert (ran.returncode, "\\xfc" in ran.stdout) == (0, True)
