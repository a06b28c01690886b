"""Results of a captured graph lie as in eager."""

from __future__ import annotations

import torch
from torch import Tensor


def test_N25_a_copy_of_a_written_input_that_is_returned_has_memory_of_its_own() -> None:
    def function(a: Tensor) -> Tensor:
        a[0:2] = 2.0
        return torch.empty_like(a).copy_(a)

    run = torch.compile(function, backend="air", options={"mode": "reduce-overhead"})
    for a in (torch.ones(3, 6), torch.ones(3, 3, 6)[2]):
        result = run(a)
        assert (result.storage_offset(), result.untyped_storage().nbytes()) == (0, 72)
