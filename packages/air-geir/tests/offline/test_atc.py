"""CANN's program `atc` where it is not: the error says how to get it."""

from __future__ import annotations

from pathlib import Path

import pytest

from air_geir.errors import EngineUnavailableError
from air_geir.offline import compile_air


def test_without_atc_the_advice_names_cann_and_air_sim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineUnavailableError, match="atc is not on PATH") as told:
        compile_air(tmp_path / "model.air", tmp_path / "model")
    assert "set_env.sh" in told.value.advice
    assert "air-sim" in told.value.advice
