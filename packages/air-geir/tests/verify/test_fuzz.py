"""Bytes that nobody wrote on purpose never crash the reader."""

from __future__ import annotations

import contextlib
import os
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from air_geir import file
from air_geir.errors import GeirError
from air_geir.ir import DataType, Graph, TensorDesc, symbol

ROUNDS = int(os.environ.get("AIR_FUZZ_ROUNDS", "1500"))


def branch(op_type: str) -> Graph:
    graph = Graph(op_type)
    x = graph.data("x", TensorDesc(DataType.FLOAT, (2,)))
    graph.output([graph.add(op_type, x)])
    return graph


@pytest.fixture(scope="module")
def valid() -> bytes:
    graph = Graph("main")
    x = graph.data("x", TensorDesc(DataType.FLOAT, (symbol("s0"), 2)))
    mm = graph.add("MatMulV2", x, graph.const(torch.randn(2, 2)), transpose_x2=True)
    cat = graph.add("ConcatV2", [mm, x], graph.const(1), N=2)
    soft = graph.add("SoftmaxV2", graph.add("Cast", cat, dst_type=torch.float16), axes=[-1])
    chosen = graph.add(
        "If", graph.const(True), [soft], num_outputs=1,
        subgraphs={"then_branch": branch("Abs"), "else_branch": branch("Neg")},
    )  # fmt: skip
    graph.output([chosen], control=[graph.add("PrintV2", x)])
    return file.to_bytes(graph)


def attempt(data: bytes) -> bool:
    """Read the bytes both ways; a refusal is one of our errors, and what is accepted can be written again."""
    with contextlib.suppress(GeirError):
        file.from_bytes(data, verify=False)
    try:
        graph = file.from_bytes(data)
    except GeirError:
        return False
    again = file.to_bytes(graph)
    assert file.to_bytes(file.from_bytes(again)) == again
    return True


def test_changed_bytes_are_refused_or_read(valid: bytes) -> None:
    rng = random.Random(0)
    accepted = 0
    for _ in range(ROUNDS):
        data = bytearray(valid)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data))
            action = rng.randrange(4)
            if action == 0:
                data[at] = rng.randrange(256)
            elif action == 1:
                del data[at : at + rng.randint(1, 8)]
            elif action == 2:
                data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 8)))
            else:
                data[at] ^= 1 << rng.randrange(8)
            if not data:
                break
        accepted += attempt(bytes(data))
    assert 0 < accepted < ROUNDS


def test_every_truncation_is_refused_or_read(valid: bytes) -> None:
    accepted = [end for end in range(0, len(valid), 3) if attempt(valid[:end])]
    assert accepted == []


def test_spliced_files_are_refused_or_read(valid: bytes) -> None:
    rng = random.Random(1)
    for _ in range(ROUNDS // 5):
        a, b = sorted(rng.randrange(len(valid)) for _ in range(2))
        attempt(valid[:b] + valid[a:])


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_read(data: bytes) -> None:
    attempt(data)
