"""The Python of the guide and of the README runs as it is printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from air_fxpasses import Pipeline
from air_fxpasses.patterns import registered_patterns, unregister_pattern
from random_programs import FUNCTIONAL, build_program

_ROOT = Path(__file__).resolve().parents[3]


def blocks(path: str) -> list[str]:
    file = _ROOT / path
    if not file.is_file():
        pytest.skip(f"{path} is not part of this distribution")
    return re.findall(r"```python\n(.*?)```", file.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(autouse=True)
def _table_as_it_was() -> Iterator[None]:
    before = {row.name for row in registered_patterns()}
    yield
    for row in registered_patterns():
        if row.name not in before:
            unregister_pattern(row.name)


def test_the_readme_example_leaves_no_copy_of_the_cache(capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, Any] = {}
    exec(blocks("packages/air-fxpasses/README.md")[0], namespace)
    assert "reinplace_input_mutated" in capsys.readouterr().out
    targets = [str(n.target) for n in namespace["gm"].graph.nodes]
    assert "aten.slice_scatter.default" not in targets
    assert targets.count("aten.copy_.default") == 1


def test_the_pass_of_the_guide_works_and_is_proven() -> None:
    namespace: dict[str, Any] = {}
    own = (block for block in blocks("docs/writing-a-pass.md") if "air_backend" not in block)
    define, run, fuse, prove = own  # the other packages' blocks run where those are installed
    exec(define, namespace)
    exec(run, namespace)
    assert "aten.square.default" in [str(n.target) for n in namespace["gm"].graph.nodes]
    exec(fuse, namespace)
    exec(prove, namespace)

    @hypothesis.settings(max_examples=50, deadline=None, database=None, derandomize=True)
    @hypothesis.given(st.lists(st.integers(0, 65535), min_size=100, max_size=100))
    def computes_what_eager_computes(choices: list[int]) -> None:
        program = build_program(choices, FUNCTIONAL)
        gm = program.copy()
        Pipeline([namespace["UseSquare"]()]).run(gm, program.inputs)
        assert program.difference(gm) is None

    computes_what_eager_computes()
