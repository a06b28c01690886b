"""Global values as text: what a trace takes in of them is in it, and what stays the same in another process."""

from __future__ import annotations

import dataclasses
import enum
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend

from air_backend.inference._described import described, is_as


class Kind(enum.Enum):
    RELU = 1
    SILU = 2


@dataclasses.dataclass(frozen=True)
class Place:
    factor: float


def doubled(x: int) -> int:
    return x * 2


def same_lines(number: int) -> Any:
    return (lambda x: x + 1) if number else (lambda x: x + 2)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.float64, torch.float16),
        (torch.device("cpu"), torch.device("cuda", 0)),
        (2j, 3j),
        ([1, 2], [1, 2, 3]),
        ({"a": 1}, {"b": 1}),
        (frozenset({"a"}), frozenset({"b"})),
        ({(0, 2.0)}, {(0, 5.0)}),
        ({(0, (1, 2.0))}, {(0, (1, 5.0))}),
        ({(0, 2.0): "a"}, {(0, 5.0): "a"}),
        ({Place(2.0)}, {Place(5.0)}),
        (functional.relu, functional.silu),
        (torch.relu, torch.neg),
        (torch.ops.aten.relu, torch.ops.aten.neg),
        (same_lines(0), same_lines(1)),
        (partial(torch.relu), partial(torch.neg)),
        (nn.ReLU, nn.SiLU),
        (nn.ReLU(), nn.SiLU()),
        (Kind.RELU, Kind.SILU),
        (range(2), range(3)),
        (torch.Tensor.sin, torch.Tensor.cos),
        (torch.Tensor.shape, torch.Tensor.dtype),
        (re.compile("a"), re.compile("b")),
        (re.compile("a"), re.compile("a", re.IGNORECASE)),
        (np.sin, np.cos),
        (torch.finfo(torch.float16), torch.finfo(torch.float32)),
        (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION),
        (torch.zeros(2), torch.zeros(3)),
        (torch.zeros(2), torch.zeros(2, requires_grad=True)),
        (os, sys),
    ],
)
def test_values_that_a_trace_tells_apart_are_described_apart(one: object, other: object) -> None:
    assert described(one) == described(one)
    assert described(one) != described(other)


def test_what_is_the_same_in_another_process_is_described_alike() -> None:
    names = (
        "doubled",
        "same_lines(1)",
        "nn.ReLU()",
        "Kind.RELU",
        "{'b', 'a', 'c'}",
        "doubled.__code__",
        "re.compile('a')",
        "...",
    )
    here = [described(eval(name)) for name in names]
    program = f"import test_described as t; print([t.described(eval(n, vars(t))) for n in {names!r}])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    ran = subprocess.run(
        (sys.executable, "-c", program), env=environment, capture_output=True, text=True, check=True
    )
    assert eval(ran.stdout) == [text.replace(__name__, "test_described") for text in here]


def test_contents_are_compared_only_where_a_trace_has_looked_at_them() -> None:
    """The environment of a process is a dictionary: a trace that reads one name of it says nothing of the others."""
    pairs: tuple[tuple[object, object], ...] = (({"a": 1}, {"b": 1}), ([1], [1, 2]), ({"a"}, {"b"}))
    for value, other in pairs:
        assert is_as(other, described(value, contents=False))
        assert not is_as(other, described(value))
        assert is_as(value, described(value))
