"""The sessions that check the repository as a whole: layers, style, documents, ledger; and what prepares for others."""

from __future__ import annotations

from typing import Final

import nox

from house.environments import (
    ENV,
    NPU_ENV,
    base,
    browser,
    install,
    install_beside_npu,
    install_over,
    library,
    see,
    site_of,
)
from house.packages import LAYERS, PACKAGES, ROOT, declared, declared_libraries, editable
from house.sessions.package import MYPY_CACHE, typed_beside
from house.sessions.running import RESULTS, passes, pytest, workers

IMPORT_LINTER: Final = "from importlinter.cli import lint_imports_command as c; c()"
RUFF: Final = "ruff>=0.17,<0.18"
SITE_NEEDS: Final = ("mkdocs-material>=9.6,<10", "mkdocs-static-i18n>=1.3,<2", "jieba", "playwright>=1.50")
DEPTRY: Final = (
    "--ignore",
    "DEP002",
    "--per-rule-ignores",
    "DEP003=sympy",
)  # torch's sizes are sympy expressions
READ_BY_HOSTS: Final = (  # schema, files
    ("vendor.github-workflows", ".github/workflows/*.yml"),
    ("custom.github-workflows-require-timeout", ".github/workflows/*.yml"),
    ("vendor.github-issue-forms", ".github/ISSUE_TEMPLATE/[!c]*.yml"),
    ("vendor.github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
    ("vendor.dependabot", ".github/dependabot.yml"),
    ("vendor.citation-file-format", "CITATION.cff"),
)
GENERATED: Final = (  # checks that the documents made from code are up to date
    "air_config docs --check",
    "air_geir operators --check docs/operators.md",
    "house.api --check",
    "house.error_index --check",
    "house.scoreboard --check",
)
#: Compiles the binding of engine `ge_session`.
BINDING: Final = "from air_geir.engines import native as n; n.library(n.runner()); n.calls()"


def prepare(session: nox.Session) -> None:
    """Installs and builds what other sessions wait for when they first need it."""
    for text in declared_libraries(*PACKAGES):
        library(session, text)
    browser(session)
    install_beside_npu(session, *editable("air-geir", "air-sim"))
    session.run("air-sim", "build", env=ENV)
    session.run("air-sim", "run", "python", "-c", BINDING, env=NPU_ENV)


def layers(session: nox.Session) -> None:
    """Declared dependencies and imports point down; nothing undeclared is imported. All faults are told at once."""
    rank = {package: row for row, layer in enumerate(LAYERS) for package in layer}
    up = [f"{p} -> {d}" for p in PACKAGES for d in declared(p) if rank[d] >= rank[p]]
    if up:
        session.error(f"dependencies that do not point to a lower layer: {', '.join(up)}")
    install(session, "import-linter>=2.3", "deptry>=0.23", *editable(*PACKAGES))
    failed = [] if passes(session, "python", "-c", IMPORT_LINTER, env=ENV) else ["import-linter"]
    for package in PACKAGES:
        with session.chdir(ROOT / "packages" / package):
            found = not passes(session, "python", "-m", "deptry", "src", *DEPTRY, env=ENV)
            failed += [f"deptry of {package}"] if found else []
    if failed:
        session.error(f"faults were found by {', '.join(failed)}")


def lint(session: nox.Session) -> None:
    """ruff check, ruff format, the house rules that ruff cannot check, and the schemas of what a code host reads."""
    install(session, RUFF, "check-jsonschema>=0.33")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("python", "-m", "house.files")
    session.run("python", "-m", "house.project")
    for schema, pattern in READ_BY_HOSTS:
        files = sorted(str(path) for path in ROOT.glob(pattern))
        session.run("check-jsonschema", "--quiet", "--builtin-schema", schema, *files)


def house(session: nox.Session) -> None:
    """The checks check: each of them fails on a copy of the repository that breaks its rule; they are typed."""
    install_over(session, typed_beside(session), "nox", RUFF)
    mypy = ("python", "-m", "mypy", "--config-file", "pyproject.toml", *MYPY_CACHE)
    session.run(*mypy, "house", "noxfile.py", env=ENV)
    session.run("python", "-m", "house.long", "--check")
    pytest(session, *workers(), "house/tests", env=ENV | {"AIR_TORCH_ENV": str(base(session).parent)})


def docs(session: nox.Session) -> None:
    """Generated pages are up to date, links lead somewhere, and the marked snippets run."""
    install_beside_npu(session, *editable("air-backend", "air-sim"))
    session.run("python", "-m", "house.forks", *GENERATED, env=ENV)
    session.run("python", "-m", "house.links", env=ENV)
    session.run("python", "-m", "house.translations", env=ENV)
    session.run("python", "-m", "house.features", "--check", env=ENV)
    session.run("python", "-m", "house.snippets", env=ENV)
    session.run("air-sim", "run", "python", "-m", "house.snippets", "--ground", "sim", env=NPU_ENV)


def site(session: nox.Session) -> None:
    """The guide as a site in build/site, English and Chinese, its links checked, opened in Chromium."""
    see(session, site_of(base(session)), *(library(session, text) for text in SITE_NEEDS))
    browser(session)
    session.run("python", "-m", "mkdocs", "build", "--quiet", env=ENV | {"NO_MKDOCS_2_WARNING": "1"})
    session.run("python", "-m", "house.built_site", "build/site")
    pytest(session, "house/site_tests", env=ENV)


def ledger(session: nox.Session) -> None:
    """Every feature that docs/features.md calls shown has a test that passed in this run."""
    see(session, site_of(base(session)))
    session.run("python", "-m", "house.features", "--results", str(RESULTS), env=ENV)
