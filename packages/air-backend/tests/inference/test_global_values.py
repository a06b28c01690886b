"""A file of `cache_compile` is used while the globals that its trace took in are what they were."""

from __future__ import annotations

import importlib
import re
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from air_backend.inference import cache_compile
from air_backend.inference.errors import CacheWarning


@pytest.mark.parametrize(
    ("value", "other", "text"),
    [
        ("torch.float64", "torch.float16", "x.to(VALUE)"),
        ("torch.relu", "torch.neg", "VALUE(x)"),
        ("torch.nn.functional.relu", "torch.nn.functional.silu", "VALUE(x)"),
        ("[1, 2]", "[1, 2, 3]", "x * len(VALUE)"),
        ("{'b'}", "{'a'}", "x * 2 if 'a' in VALUE else x * 3"),
        ("2j", "3j", "x * VALUE"),
        ("re.compile('a')", "re.compile('b')", "x * 2 if VALUE.match('a') else x * 3"),
        ("[1.0, 2.0]", "[1.0, 3.0]", "x * torch.tensor(VALUE)"),
        ("nn.LeakyReLU(0.25)", "nn.LeakyReLU(0.5)", "VALUE(x)"),
        ("nn.Sequential(nn.Tanh())", "nn.Sequential(nn.Tanh(), nn.Tanh())", "VALUE(x)"),
    ],
)
def test_W28_a_global_value_of_any_kind_that_changed_is_noticed(
    value: str, other: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"program_of_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(
        f"import torch\nVALUE = None\n\ndef program(x):\n    return {text}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    program = importlib.import_module(name)
    x = torch.tensor([-1.0, 1.0])
    for now, count in ((value, 1), (value, 1), (other, 2), (other, 2)):
        vars(program)["VALUE"] = eval(now, {"torch": torch, "nn": nn, "re": re})
        torch._dynamo.reset()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CacheWarning)
            made = cache_compile(program.program, cache_dir=tmp_path)(x)
        torch.testing.assert_close(made, program.program(x))
        assert len([path for path in tmp_path.rglob("compiled_module*") if path.is_file()]) == count
