"""What is the same question has the same answer, also where a package may import no other."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_air_sim_trusts_a_path_as_air_config_does() -> None:
    """air-sim is of use alone and loads its libraries before torch: it has a copy of the module."""
    ours = ROOT / "packages" / "air-config" / "src" / "air_config" / "trust.py"
    copy = ROOT / "packages" / "air-sim" / "src" / "air_sim" / "_trust.py"
    assert copy.read_text() == ours.read_text(), f"cp {ours} {copy}"
