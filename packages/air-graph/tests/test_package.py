from __future__ import annotations

import air_graph


def test_it_imports() -> None:
    assert air_graph.__version__
