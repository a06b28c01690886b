"""torch's own operator samples on device npu equal those on the CPU.

A case is one operator in one data type.  AIR_SIM_OPINFO=full takes more data types and samples, and
AIR_SIM_OPINFO_SHARD=2/8 the second eighth of the cases; AIR_SIM_OPINFO_RECORD=file writes the counts for the page
about the operators.
"""

from __future__ import annotations

import os

import pytest
import torch

pytest.importorskip("torch_npu", exc_type=ImportError)

from opinfo_expected import reason_of
from opinfo_summary import record

from opinfo import DTYPES, FULL_DTYPES, OpInfo, cases, outcome

_FULL = os.environ.get("AIR_SIM_OPINFO") == "full"
_SAMPLES = 50 if _FULL else 3


def _chosen() -> list[tuple[str, OpInfo, torch.dtype]]:
    part, of = (int(number) for number in os.environ.get("AIR_SIM_OPINFO_SHARD", "1/1").split("/"))
    return list(cases(FULL_DTYPES if _FULL else DTYPES))[part - 1 :: of]


@pytest.mark.parametrize(("case", "op", "dtype"), [pytest.param(*c, id=c[0]) for c in _chosen()])
def test_samples_equal_the_cpu(case: str, op: OpInfo, dtype: torch.dtype) -> None:
    found = outcome(op, dtype, _SAMPLES)
    reason = reason_of(case)
    excused = reason is not None and found.kind not in ("equal", "fallback")
    record("excused" if excused else found.kind, reason if excused else found.detail)
    if excused:
        pytest.xfail(str(reason))
    assert found.kind in ("equal", "fallback"), f"{found.kind}: {found.detail}"
