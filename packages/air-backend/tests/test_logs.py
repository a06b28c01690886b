"""The log under TorchAir's names: one level and one handler for all packages."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import unittest
from collections.abc import Iterator

import pytest
import torch

import air_backend as torchair
from air_backend import CompilerConfig, get_npu_backend
from air_backend._logs import PACKAGES, read_variable
from air_backend.core.utils import logger


@pytest.fixture(autouse=True)
def levels_put_back() -> Iterator[None]:
    before = [(logging.getLogger(name), logging.getLogger(name).level) for name in PACKAGES]
    yield
    for package, level in before:
        package.setLevel(level)


def compile_once() -> None:
    config = CompilerConfig()
    config.mode = "reduce-overhead"
    with torch.no_grad():
        torch.compile(lambda x: x + 1, backend=get_npu_backend(compiler_config=config))(torch.randn(2))


def test_G51_the_logger_of_torchair_sets_the_level_of_every_package(caplog: pytest.LogCaptureFixture) -> None:
    assert torchair.logger is logger
    torchair.logger.setLevel(logging.INFO)
    compile_once()
    said = {record.name.partition(".")[0] for record in caplog.records if record.levelno == logging.INFO}
    assert {"air_backend", "air_aclgraph", "air_fxpasses"} <= said
    caplog.clear()
    torchair.logger.setLevel(logging.ERROR)
    compile_once()
    assert not [record for record in caplog.records if record.name.startswith("air_")]


def test_G51_a_handler_is_one_for_all_packages() -> None:
    seen: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record.name)

    handler = Keep()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        compile_once()
    finally:
        logger.removeHandler(handler)
    assert {name.partition(".")[0] for name in seen} >= {"air_backend", "air_aclgraph"}
    assert handler not in logger.handlers


@pytest.mark.parametrize(("text", "level"), [("0", logging.DEBUG), ("1", logging.INFO), ("3", logging.ERROR)])
def test_G51_the_variable_of_torchair_sets_the_level(text: str, level: int) -> None:
    read_variable({"TNG_LOG_LEVEL": text})
    assert {logging.getLogger(name).level for name in PACKAGES} == {level}
    assert logger.level == level


def test_G51_a_level_that_does_not_exist_is_said_to_be_ignored(caplog: pytest.LogCaptureFixture) -> None:
    before = logger.level
    read_variable({"TNG_LOG_LEVEL": "loud"})
    assert "TNG_LOG_LEVEL=loud is ignored" in caplog.text
    assert "0 DEBUG" in caplog.text
    assert logger.level == before


def test_G51_the_logger_is_a_logger_of_logging_which_unittest_can_listen_to() -> None:
    assert isinstance(torchair.logger, logging.Logger)
    assert logging.getLogger("air_backend") is torchair.logger
    case = unittest.TestCase()
    before = list(logger.handlers), [logging.getLogger(name).handlers[:] for name in PACKAGES]
    with case.assertLogs(torchair.logger, level="INFO") as heard:
        compile_once()
    assert {name.partition(":")[2].partition(".")[0] for name in heard.output} >= {
        "air_backend",
        "air_aclgraph",
    }
    assert (list(logger.handlers), [logging.getLogger(name).handlers[:] for name in PACKAGES]) == before
    with case.assertNoLogs(torchair.logger, level="CRITICAL"):
        compile_once()


def test_G51_an_event_is_said_at_a_level_above_warnings() -> None:
    with unittest.TestCase().assertLogs(torchair.logger, level="WARNING") as heard:
        torchair.logger.event("captured %d", 3)
    assert [(record.levelno, record.getMessage()) for record in heard.records] == [(35, "captured 3")]


PROGRAM = """
import logging, sys, torch
if len(sys.argv) > 1:
    import air_backend._backend
    torch._logging.set_logs(modules={"air": logging.INFO})
torch.compile(lambda x: x + 1, backend="air", mode="reduce-overhead")(torch.ones(2))
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("words", "variable"), [([], "air"), ([], "dynamo,+air"), (["later"], "")])
def test_torchs_own_switches_of_logs_know_air_as_a_name_for_all_packages(
    words: list[str], variable: str
) -> None:
    env = {**os.environ, "TORCH_LOGS": variable} if variable else dict(os.environ)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, timeout=300, env=env
    )
    assert ran.returncode == 0, ran.stderr
    for part in ("air_backend/_compile.py", "air_fxpasses/_pipeline.py", "air_aclgraph/"):
        assert part in ran.stderr
    assert ran.stderr.count("graph_0: inference") == 1, "each line once"
