"""What the packages of the repository declare: their layers, the siblings they need, and the libraries."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

import nox
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
LAYERS = (  # lowest first; a package may only depend on packages of an earlier row
    ("air-config",),
    ("air-graph", "air-sim"),
    ("air-fxpasses", "air-streams"),
    ("air-aclgraph", "air-geir"),
    ("air-backend",),
)
PACKAGES = tuple(package for layer in LAYERS for package in layer)
PURE = "air-config"  # needs no torch: tested on every Python the machine has
TORCH_TESTED = tuple(package for package in PACKAGES if package not in (PURE, "air-sim"))
NPU_TESTED = ("air-sim", "air-streams", "air-aclgraph", "air-geir", "air-backend")
OLDER_TORCHES = ("2.11.0", "2.12.1")  # supported as well; their wheels bring CUDA, gigabytes of it


Project = TypedDict(  # what the sessions read of a `[project]` table
    "Project", {"dependencies": list[str], "optional-dependencies": dict[str, list[str]]}, total=False
)


def project(package: str) -> Project:
    """The `[project]` table of a package."""
    table: Project = nox.project.load_toml(ROOT / "packages" / package / "pyproject.toml")["project"]
    return table


def declared(package: str) -> tuple[str, ...]:
    """The sibling packages that a package declares as hard dependencies."""
    names = (Requirement(text).name for text in project(package)["dependencies"])
    return tuple(name for name in names if name in PACKAGES)


def closure(*packages: str) -> list[str]:
    """The packages and all siblings they depend on, dependencies first."""
    needed = set(packages)
    for name in reversed(PACKAGES):
        if name in needed:
            needed.update(declared(name))
    return [package for package in PACKAGES if package in needed]


def declared_libraries(*packages: str) -> list[str]:
    """What packages, the siblings they need and their tests ask for from elsewhere, except torch."""
    asked = {text for name in closure(*packages) for text in project(name)["dependencies"]}
    for package in packages:
        asked.update(project(package).get("optional-dependencies", {}).get("test", []))
    return sorted(text for text in asked if Requirement(text).name not in (*PACKAGES, "torch"))


def editable(*packages: str, extra: str = "") -> list[str]:
    """pip arguments that install the packages, and the siblings they need, from their sources."""
    wanted = {package: f"packages/{package}{extra}" for package in packages}
    return [word for name in closure(*packages) for word in ("-e", wanted.get(name, f"packages/{name}"))]


def with_tests(package: str) -> list[str]:
    """The package with its `test` extra, where it has one."""
    extras = project(package).get("optional-dependencies", {})
    return editable(package, extra="[test]" if "test" in extras else "")


def proofs(package: str) -> tuple[str, ...]:
    """pytest arguments that make Hypothesis draw the same examples in every run: CI fails for what was changed."""
    extras = project(package).get("optional-dependencies", {}).get("test", [])
    used = any(Requirement(text).name == "hypothesis" for text in extras)
    return ("--hypothesis-profile", "ci") if used else ()
