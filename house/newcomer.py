"""What a new user does first, with nothing but the packages: sessions do the same from wheels alone.

The environment of the session has the wheels installed; everything happens in folders that know no source.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import nox

from house.environments import ENV
from house.packages import ROOT
from house.snippets import program

FROM_WHEELS: Final = (
    "import air_backend\nassert 'site-packages' in air_backend.__file__, air_backend.__file__\n"
)

#: Runs `house.forks` where the checkout is not on the path.
FORKS: Final = f"import runpy; runpy.run_path({str(ROOT / 'house/forks.py')!r}, run_name='__main__')"

EXPLAIN: Final = ("explain", "model.py:build", "--html", "report.html")
TEST: Final = ("pytest", "-q", "test_fold_scales.py")
MODEL: Final = """
import torch

def build():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU()).eval(), (torch.randn(2, 4),)
"""


def newcomer(session: nox.Session, forked: bool = False) -> None:
    """`air doctor`, `air demo`, the quick start, the page that explains a model, and an own pass with its test.

    What follows the demo may be forked from one process with torch, which knows the checkout as little as others do.
    """
    folder = Path(session.create_tmp())
    quick_start = program((ROOT / "docs/quick-start.md").read_text())
    if "torch.compile" not in quick_start:
        session.error("docs/quick-start.md has no snippet that runs")
    (folder / "model.py").write_text(MODEL)
    (folder / "quick_start.py").write_text(f"{quick_start}\n{FROM_WHEELS}")
    with session.chdir(folder):
        session.run("air", "doctor", env=ENV)
        session.run("air", "demo", env=ENV)
        session.run("air", "new-pass", "fold_scales", "--force", env=ENV)
        if forked:
            explain, test = f"{session.bin}/air {' '.join(EXPLAIN)}", " ".join(TEST)
            session.run("python", "-c", FORKS, "quick_start.py", explain, test, env=ENV)
        else:
            session.run("python", "quick_start.py", env=ENV)
            session.run("air", *EXPLAIN, silent=True, env=ENV)
            session.run("python", "-m", *TEST, env=ENV)
    if "<html" not in (folder / "report.html").read_text():
        session.error("`air explain --html` wrote no page")


def from_sdist(session: nox.Session, *packages: str, options: Sequence[str] = ()) -> None:
    """The tests that sdists bring, against what the wheels have installed."""
    folder = Path(session.create_tmp())
    for package in packages:
        (archive,) = (ROOT / "dist").glob(f"{package.replace('-', '_')}-*.tar.gz")
        shutil.unpack_archive(archive, folder, filter="data")
        unpacked = folder / archive.name.removesuffix(".tar.gz")
        shutil.rmtree(unpacked / "src")
        (unpacked / "pyproject.toml").unlink()
        pytest = ("python", "-m", "pytest", "-q", "--import-mode=importlib", "-p", "no:cacheprovider")
        with session.chdir(unpacked):
            session.run(*pytest, *options, "-m", "not npu and not slow", "tests", env=ENV)
