"""A mistyped shape is an error of its own line, before anything runs: the arguments are checked as a device does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

pytestmark = pytest.mark.npu


def made(*shape: int) -> torch.Tensor:
    return torch.ones(*shape).npu()


def chosen(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.long).npu()


MISTYPED: dict[str, tuple[Callable[[], torch.Tensor], str]] = {
    "mm": (
        lambda: made(3, 4) @ made(5, 6),
        r"self of shape \[3, 4\] cannot be multiplied by mat2 of shape \[5, 6\]",
    ),
    "batches": (lambda: torch.bmm(made(2, 3, 4), made(3, 4, 5)), "cannot be multiplied"),
    "mv": (lambda: torch.mv(made(3, 4), made(5)), "cannot be multiplied"),
    "dot": (lambda: torch.dot(made(3), made(4)), "cannot be multiplied"),
    "linear": (lambda: F.linear(made(3, 4), made(6, 5), made(6)), "mat1 of shape .* mat2 of shape"),
    "in place": (lambda: made(3, 4).add_(made(2, 4)), r"other of shape \[2, 4\] does not fit into self"),
    "copy": (lambda: made(3, 4).copy_(made(5)), "source of shape .* does not fit into self"),
    "cat": (lambda: torch.cat([made(3, 4), made(3, 5)]), "differ beside dimension 0"),
    "stack": (lambda: torch.stack([made(3), made(4)]), "tensors have different shapes"),
    "gather": (lambda: made(3, 4).gather(1, chosen(5, 2)), "index of shape .* beside dimension 1"),
    "scatter": (lambda: made(3, 4).scatter_add(1, chosen(3, 2), made(3, 1)), "index .* larger than source"),
    "index_select": (lambda: made(3, 4).index_select(0, chosen(2, 2)), "is not a list of numbers"),
    "softmax": (lambda: made(3, 4).softmax(3), "dim is 3"),
    "topk": (lambda: made(3).topk(5).values, "k is 5, and self of shape .* has 3 elements"),
    "glu": (lambda: F.glu(made(3)), "cannot be halved"),
}


@pytest.mark.parametrize("name", MISTYPED)
def test_a_mistyped_shape_is_refused_in_its_own_line(name: str) -> None:
    call, why = MISTYPED[name]
    torch.npu.synchronize()
    with pytest.raises(RuntimeError, match=rf"(?s)call aclnn\w+ failed.*aclnn\w+: .*{why}"):
        call()
    torch.npu.synchronize()
    assert made(2).sum().item() == 2


def test_shapes_that_belong_together_in_their_own_ways_are_taken() -> None:
    def results(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)

        def drawn(*shape: int) -> torch.Tensor:
            return torch.randn(*shape).to(device)

        index = torch.tensor([[0, 1]]).to(device)
        return [
            drawn(4) @ drawn(4),
            drawn(4) @ drawn(2, 4, 3),
            drawn(2, 1, 3, 4) @ drawn(5, 4, 2),
            drawn(3, 0) @ drawn(0, 2),
            torch.addmm(drawn(1), drawn(3, 4), drawn(4, 2)),
            torch.cat([drawn(0), drawn(2, 3)]),
            torch.cat([drawn(2, 3), drawn(2, 0)], -1),
            drawn(3, 4).gather(0, index),
            torch.tensor(2.0).to(device).softmax(0),
            torch.tensor(2.0).to(device).topk(1, -1).values,
            drawn(3, 4).mul_(drawn(4)).masked_fill_(torch.tensor([True, False, True, True]).to(device), 1.0),
        ]

    for actual, expected in zip(results("npu"), results("cpu"), strict=True):
        torch.testing.assert_close(actual.cpu(), expected)
