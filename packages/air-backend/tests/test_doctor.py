"""What `air doctor` shows of a failed probe is the line that says what happened."""

from __future__ import annotations

import pytest

from air_backend.doctor._checks import what_went_wrong

DYNAMO = """Traceback (most recent call last):
  File "x.py", line 1
torch._dynamo.exc.BackendCompilerFailed: backend='air' raised:
UnsupportedDevice: mode 'max-autotune' does not run on 'cuda' tensors

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        (DYNAMO, "UnsupportedDevice: mode 'max-autotune' does not run on 'cuda' tensors"),
        ("Traceback\n  File x\nImportError: no libascendcl.so\n", "ImportError: no libascendcl.so"),
        ("", "no output"),
    ],
)
def test_the_cause_is_shown_and_not_the_hints_around_it(stderr: str, said: str) -> None:
    assert what_went_wrong(stderr) == said
