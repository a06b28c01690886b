"""`generate` of transformers gives eager's tokens: models, caches, searches and requests that nobody chose.

`--fuzz-programs N` sets how many uses there are, a tenth of N for each mode, and `--fuzz-seed S` with which one they
begin. A request that eager refuses is not judged, and what torch alone gets wrong alike is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from generations import NoSpeaker, Use, speaker

SHARDS = 2  # so that several workers share the uses of a mode
TENTH = 10
ON_NPU = 5  # so many times fewer there
MODES = ("reduce-overhead", "max-autotune")
Seen = Sequence[list[Tensor] | Exception]


def difference(expected: Seen, found: Seen) -> str | None:
    """How the first request differs that does: its scores, then its tokens."""
    for number, (theirs, mine) in enumerate(zip(expected, found, strict=True)):
        if isinstance(theirs, Exception):
            continue
        if isinstance(mine, Exception):
            return f"request {number} raised {type(mine).__name__}: {mine}"
        same = [
            one.shape == other.shape and torch.allclose(one, other, rtol=1e-2, atol=2e-2, equal_nan=True)
            for one, other in zip(theirs[1:], mine[1:], strict=False)
        ]
        if not all(same):
            return f"request {number}: scores {same.index(False)} differ"
        if not torch.equal(theirs[0], mine[0]):
            return f"request {number}: tokens {theirs[0].tolist()}, not {mine[0].tolist()}"
    return None


def difference_of(use: Use, mode: str, device: str) -> str | None:
    """How a use differs from eager, where torch alone does not."""
    try:
        model = speaker(use.name, device)
    except NoSpeaker:
        return None
    expected = use.played(model, None)
    found = difference(expected, use.played(model, "air", {"mode": mode}))
    if found is None or difference(expected, use.played(model, "aot_eager")) is not None:
        return None
    return f"{use}: {found}"


def check(mode: str, seeds: range, device: str) -> None:
    found = [difference_of(Use.drawn(seed), mode, device) for seed in seeds]
    assert [text for text in found if text is not None] == []


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore")
def test_random_uses_of_generate_give_eager_s_tokens(
    mode: str, shard: int, request: pytest.FixtureRequest
) -> None:
    first, programs = (request.config.getoption(name) for name in ("--fuzz-seed", "--fuzz-programs"))
    check(mode, range(first + shard, first + max(programs // TENTH, SHARDS), SHARDS), "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore")
def test_random_uses_of_generate_on_a_device_give_eager_s_tokens(
    accelerator: str, mode: str, request: pytest.FixtureRequest
) -> None:
    first, programs = (request.config.getoption(name) for name in ("--fuzz-seed", "--fuzz-programs"))
    check(mode, range(first, first + max(programs // TENTH // ON_NPU, 1)), accelerator)


def test_the_judge_sees_a_token_that_is_another() -> None:
    expected: Seen = [RuntimeError("refused"), [torch.tensor([[1, 2]]), torch.tensor([[0.5, 1.0]])]]
    assert difference(expected, expected) is None
    other: Seen = [expected[0], [torch.tensor([[1, 3]]), torch.tensor([[0.5, 1.0]])]]
    assert "tokens" in str(difference(expected, other))
    other = [expected[0], [torch.tensor([[1, 2]]), torch.tensor([[0.5, 2.0]])]]
    assert "scores" in str(difference(expected, other))
    assert "raised" in str(difference(expected, [expected[0], RuntimeError("here")]))
