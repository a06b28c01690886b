"""`HeldLayers`: what is resolved later is resolved over the patches and variables of before."""

from __future__ import annotations

import threading

import pytest

from air_config import CompilerConfig, HeldLayers, Settings, patch, resolve


def test_patches_and_variables_are_those_of_the_moment_wherever_they_are_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIR_SYNC", "auto")
    monkeypatch.delenv("AIR_WARMUP", raising=False)
    with patch(mode="reduce-overhead"):
        layers = HeldLayers()
    monkeypatch.delenv("AIR_SYNC")
    monkeypatch.setenv("AIR_WARMUP", "7")
    seen: list[Settings] = []

    def later() -> None:
        with patch(capture_limit=3), layers.again():
            seen.append(resolve(CompilerConfig()))

    thread = threading.Thread(target=later)
    thread.start()
    thread.join()
    (settings,) = seen
    assert (settings.mode, settings.air.sync, settings.air.warmup) == ("reduce-overhead", "auto", 1)
    assert settings.debug.aclgraph.static_capture_size_limit == 64


def test_after_the_block_the_layers_of_now_are_back(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = HeldLayers()
    monkeypatch.setenv("AIR_SYNC", "auto")
    with patch(mode="reduce-overhead"):
        with layers.again():
            assert resolve(CompilerConfig()).mode == "max-autotune"
        settings = resolve(CompilerConfig())
    assert (settings.mode, settings.air.sync) == ("reduce-overhead", "auto")
