"""`air completion` writes what a shell can use."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from air_backend.cli import main

COMPLETE = """
source {file}
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
complete -p air >/dev/null && $(complete -p air | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
echo "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("air ex", "explain"),
        ("air explain --ht", "--html"),
        ("air new-p", "new-pass"),
        ("air demo --j", "--json"),
    ],
)
def test_bash_completes_commands_and_their_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, found: str
) -> None:
    assert main(["completion", "bash"]) == 0
    file = tmp_path / "air.bash"
    file.write_text(capsys.readouterr().out)
    assert shutil.which("bash")
    ran = subprocess.run(
        ["bash", "-c", COMPLETE.format(file=file, words=words)], capture_output=True, text=True, timeout=60
    )
    assert ran.stdout.split() == [found], ran.stderr
