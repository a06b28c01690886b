"""pytest --sim: the test run gets an Ascend device in software.

The hook runs before any conftest is imported, hence before torch.
"""

from __future__ import annotations

import argparse

import pytest

import air_sim


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --sim and --sim-switch."""
    group = parser.getgroup("air-sim")
    group.addoption(
        "--sim", action="store_true", help="run on air-sim, the software Ascend (before torch is imported)"
    )
    group.addoption(
        "--sim-switch",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a switch of air-sim, for example --sim-switch devices=2 (see 'air-sim info')",
    )


def _switches(options: argparse.Namespace) -> dict[str, object]:
    pairs = (text.partition("=") for text in options.sim_switch)
    return {name: value for name, _, value in pairs}


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Activates air-sim when --sim is given."""
    options = early_config.known_args_namespace
    if getattr(options, "sim", False):
        air_sim.activate(**_switches(options))


def pytest_report_header(config: pytest.Config) -> str | None:
    """Names the libraries of the run in the header."""
    libraries = air_sim.active()
    if libraries is None or not config.getoption("sim"):
        return None
    return f"air-sim: {libraries.install.key} (no number of it is NPU performance)"
