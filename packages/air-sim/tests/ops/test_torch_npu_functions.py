"""Functions of torch_npu's own, and operators that it takes for them, against plain torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

torch_npu = pytest.importorskip("torch_npu", exc_type=ImportError)

pytestmark = pytest.mark.npu


def close(actual: object, expected: object, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("how", ["none", "mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighed", [False, True])
def test_cross_entropy_and_its_gradient_are_those_of_torch(how: str, smoothing: float, weighed: bool) -> None:
    x, target = torch.randn(5, 4), torch.tensor([1, 0, 3, -100, 2])
    weight = torch.rand(4) + 0.5 if weighed else None
    there, here = x.npu().requires_grad_(), x.clone().requires_grad_()
    on_device = None if weight is None else weight.npu()
    settings = {"reduction": how, "label_smoothing": smoothing}
    actual = torch_npu.npu_cross_entropy_loss(there, target.npu(), on_device, **settings)[0]
    expected = F.cross_entropy(here, target, weight, **settings)
    actual.pow(2).sum().backward()
    expected.pow(2).sum().backward()
    close([actual.detach().cpu().reshape(expected.shape), there.grad.cpu()], [expected.detach(), here.grad])


def test_the_norm_of_gemma_adds_one_to_its_weight() -> None:
    x, gamma = torch.randn(3, 8), torch.randn(8)
    close(torch_npu.npu_gemma_rms_norm(x.npu(), gamma.npu())[0].cpu(), F.rms_norm(x, (8,), gamma + 1, 1e-6))


def test_a_sparse_tensor_adds_what_has_one_place() -> None:
    places, values = torch.tensor([[1, 0, 1, 1], [2, 1, 2, 0]]), torch.randn(4, 3)
    expected = torch.sparse_coo_tensor(places, values, (2, 3, 3)).coalesce()
    actual = torch.sparse_coo_tensor(places.npu(), values.npu(), (2, 3, 3)).coalesce()
    assert torch.equal(actual.indices().cpu(), expected.indices())
    close(actual.values().cpu(), expected.values())


@pytest.mark.parametrize("first", [False, True])
def test_a_confused_transpose_permutes_before_or_after_it_reshapes(first: bool) -> None:
    x, perm = torch.randn(2, 3, 4), [1, 0, 2]
    shape = [3, 8] if first else [4, 3, 2]
    expected = x.permute(perm).reshape(shape) if first else x.reshape(shape).permute(perm)
    close(torch_npu.npu_confusion_transpose(x.npu(), perm, shape, first).cpu(), expected)


def test_a_masked_softmax_and_its_gradient_hide_what_the_mask_hides() -> None:
    x, mask = torch.randn(2, 3, 16, 32), torch.rand(2, 1, 16, 32) > 0.7
    there, here = x.npu().requires_grad_(), x.clone().requires_grad_()
    actual = torch_npu.npu_scaled_masked_softmax(there, mask.npu(), 0.5, False)
    expected = (here * 0.5).masked_fill(mask, -10000.0).softmax(-1)
    actual.pow(2).sum().backward()
    expected.pow(2).sum().backward()
    close([actual.detach().cpu(), there.grad.cpu()], [expected.detach(), here.grad])


def test_slices_of_torch_npu_are_those_of_torch() -> None:
    x = torch.randn(4, 6, 5)
    close(torch_npu.npu_slice(x.npu(), [1, 0, 2], [2, 6, 3]).cpu(), x[1:3, :, 2:5])
    close(torch_npu.npu_indexing(x.npu(), [1, 0, 0], [4, 6, 5], [2, 3, 1]).cpu(), x[1:4:2, 0:6:3])


def test_one_hot_and_sort_are_those_of_torch() -> None:
    index, x = torch.tensor([2, 0, 1], dtype=torch.int32), torch.randn(3, 5)
    close(torch_npu.npu_one_hot(index.npu(), depth=4).cpu(), F.one_hot(index.long(), 4).float())
    close(torch_npu.npu_sort_v2(x.npu(), 0, True).cpu(), x.sort(0, descending=True).values)


def test_cross_entropy_with_distributions_is_that_of_torch() -> None:
    x, labels = torch.randn(4, 5), torch.randn(4, 5).softmax(-1)
    actual = torch_npu.npu_softmax_cross_entropy_with_logits(x.npu(), labels.npu())
    close(actual.cpu(), F.cross_entropy(x, labels, reduction="none"))


@pytest.mark.parametrize("name", ["ceil", "floor", "round", "trunc", "frac"])
def test_lists_are_rounded_as_on_the_cpu(name: str) -> None:
    x = [torch.randn(3, 4) * 3, torch.randn(5) * 3]
    rounded, in_place = getattr(torch, f"_foreach_{name}"), getattr(torch, f"_foreach_{name}_")
    close([one.cpu() for one in rounded([one.npu() for one in x])], list(rounded(x)))
    there, here = [one.npu() for one in x], [one.clone() for one in x]
    in_place(there)
    in_place(here)
    close([one.cpu() for one in there], here)


@pytest.mark.parametrize("dim", [0, 1])
def test_what_is_repeated_as_often_as_a_tensor_says_has_a_gradient(dim: int) -> None:
    def gradient(device: str) -> torch.Tensor:
        torch.manual_seed(0)
        x, repeats = torch.randn(3, 3).to(device).requires_grad_(), torch.tensor([2, 0, 3]).to(device)
        x.repeat_interleave(repeats, dim).pow(3).sum().backward()
        assert x.grad is not None
        return x.grad.cpu()

    close(gradient("npu"), gradient("cpu"))


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_a_feed_forward_of_one_expert_is_two_linear_layers(activation: str) -> None:
    x, first, second, bias = (
        torch.randn(4, 8),
        torch.randn(8, 16) / 4,
        torch.randn(16, 8) / 4,
        torch.randn(16),
    )
    on_device = [one.half().npu() for one in (x, first, second)]
    actual = torch_npu.npu_ffn(*on_device, activation, bias1=bias.half().npu())
    expected = getattr(F, activation)(x @ first + bias) @ second
    close(actual.float().cpu(), expected, 2e-2)
