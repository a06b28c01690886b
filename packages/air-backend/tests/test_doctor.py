"""What `air doctor` shows of a failed probe is the line that says what happened."""

from __future__ import annotations

import pytest

from air_backend import doctor
from air_backend.doctor import _checks
from air_backend.doctor._checks import what_went_wrong

DYNAMO = """Traceback (most recent call last):
  File "x.py", line 1
torch._dynamo.exc.BackendCompilerFailed: backend='air' raised:
UnsupportedDevice: mode 'max-autotune' does not run on 'cuda' tensors

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""


CONFIG = """torch._dynamo.exc.BackendCompilerFailed: backend='air' raised:
WrongValue: option 'mode': the value is not allowed
  at       environment variable AIR_MODE

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        (DYNAMO, "UnsupportedDevice: mode 'max-autotune' does not run on 'cuda' tensors"),
        (CONFIG, "WrongValue: option 'mode': the value is not allowed; at environment variable AIR_MODE"),
        ("Traceback\n  File x\nImportError: no libascendcl.so\n", "ImportError: no libascendcl.so"),
        ("", "no output"),
    ],
)
def test_the_cause_is_shown_and_not_the_hints_around_it(stderr: str, said: str) -> None:
    assert what_went_wrong(stderr) == said


def test_a_check_that_fails_itself_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def check_torch() -> doctor.Finding:
        raise RuntimeError("no version")

    monkeypatch.setattr(doctor, "CHECKS", (check_torch, _checks.check_python))
    broken, fine = doctor.examine()
    assert (broken.subject, broken.state) == ("torch", "broken")
    assert "RuntimeError: no version" in broken.seen
    assert fine.state == "ok"


def test_a_compilation_that_does_not_end_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_checks, "PROBE_TIMEOUT_S", 0.01)
    found = _checks.check_compile()
    assert (found.state, "is not compiled after" in found.seen) == ("broken", True)
