"""The parts of batch normalisation over several devices, against that of one device with all of the batch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

pytestmark = pytest.mark.npu

EPS, MOMENTUM = 1e-5, 0.1


def close(actual: object, expected: object) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("places", [(), (5,), (4, 4)])
def test_parts_of_two_devices_make_the_norm_of_the_whole_batch(places: tuple[int, ...]) -> None:
    x, grad = torch.randn(6, 3, *places), torch.randn(6, 3, *places)
    weight, bias = torch.rand(3) + 0.5, torch.randn(3)
    leaf, scale = x.clone().requires_grad_(), weight.clone().requires_grad_()
    mean_of_runs, variance_of_runs = torch.zeros(3), torch.ones(3)
    expected = F.batch_norm(leaf, mean_of_runs, variance_of_runs, scale, bias, True, MOMENTUM, EPS)
    expected.backward(grad)

    parts, grads = [part.npu() for part in x.split([4, 2])], [part.npu() for part in grad.split([4, 2])]
    found = [torch.batch_norm_stats(part, EPS) for part in parts]
    counts = torch.tensor([float(part.numel() // 3) for part in parts]).npu()
    running = [torch.zeros(3).npu(), torch.ones(3).npu()]
    mean, invstd = torch.batch_norm_gather_stats_with_counts(
        parts[0],
        torch.stack([m for m, _ in found]),
        torch.stack([s for _, s in found]),
        *running,
        MOMENTUM,
        EPS,
        counts,
    )
    on_device = weight.npu()
    out = [torch.batch_norm_elemt(part, on_device, bias.npu(), mean, invstd, EPS) for part in parts]
    close(torch.cat(out).cpu(), expected.detach())
    close([one.cpu() for one in running], [mean_of_runs, variance_of_runs])

    sums = [
        torch.batch_norm_backward_reduce(dy, part, mean, invstd, on_device, True, True, True)
        for dy, part in zip(grads, parts, strict=True)
    ]
    total, weighed, grad_weight, _ = (torch.stack(column).sum(0) for column in zip(*sums, strict=True))
    back = [
        torch.batch_norm_backward_elemt(dy, part, mean, invstd, on_device, total, weighed, counts.int())
        for dy, part in zip(grads, parts, strict=True)
    ]
    close([torch.cat(back).cpu(), grad_weight.cpu()], [leaf.grad, scale.grad])


def test_a_mask_that_scales_is_a_product() -> None:
    x, mask = torch.randn(4, 5), torch.rand(4, 5) > 0.5
    close(torch._masked_scale(x.npu(), mask.byte().npu(), 2.0).cpu(), x * mask * 2)


def test_a_convolution_of_each_channel_by_itself_is_that_of_the_cpu() -> None:
    x, weight = torch.randn(2, 3, 6, 6), torch.randn(3, 1, 3, 3)
    actual = torch.ops.aten._conv_depthwise2d(x.npu(), weight.npu(), [3, 3], None, [1, 1], [1, 1], [1, 1])
    close(actual.cpu(), F.conv2d(x, weight, padding=1, groups=3))
