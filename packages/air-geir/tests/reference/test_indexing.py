"""Kernels of the reference engine on operands that lie unusually."""

from __future__ import annotations

import torch
from torch import Tensor

from air_geir.proof import compile_call


def test_places_of_an_embedding_bag_need_not_lie_densely() -> None:
    def bags(table: Tensor, places: Tensor, weights: Tensor) -> Tensor:
        flat: Tensor = places.reshape(-1)
        starts = torch.arange(0, 25, 5)
        summed = torch.ops.aten._embedding_bag(table, flat, starts, False, 0, False, weights.reshape(-1))
        result: Tensor = summed[0]
        return result

    table, weights = torch.randn(10, 5), torch.randn(5, 5)
    places = torch.randint(0, 10, (5, 10))[:, ::2]
    run, tensors = compile_call(bags, (table, places, weights), {})
    torch.testing.assert_close(run(*tensors)[0], bags(table, places.contiguous(), weights))
