"""Weights in the formats that Ascend's matrix units read best: `use_internal_format_weight`, `npu_format_cast_via_cpu`.

A linear weight becomes FRACTAL_NZ, a half-precision convolution without groups FRACTAL_Z, once, before the model is
compiled; the operators read such weights as they lie. torch_npu lays tensors out only while
`torch.npu.config.allow_internal_format` is set.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import torch
from torch import Tensor, nn

from air_backend.errors import WeightsOnHost

log = logging.getLogger(__name__)

FRACTAL_Z: Final = 4
FRACTAL_NZ: Final = 29
_QUANTISED: Final = ("LinearQuant", "LinearA8W8Quant", "LinearWeightQuant")
"""Classes of torch_npu.contrib whose `weight` is a matrix, too."""


def use_internal_format_weight(model: nn.Module) -> None:
    """Lays the weights of all linear and convolution layers out for the device, in place.

    Set `torch.npu.config.allow_internal_format = True` before; a warning says where weights were left as they are.
    """
    left = 0
    for name, module in model.named_modules():
        wanted = _format_of(module)
        if wanted is not None:
            weight = module.weight
            assert isinstance(weight, Tensor)
            _on_npu("use_internal_format_weight", weight, f"{name or 'the model'}.weight")
            weight.data = _cast(weight.data, wanted)
            left += _number_of(weight) != wanted
            log.debug("%s.weight is in format %d", name, _number_of(weight))
    if left:
        log.warning(
            "use_internal_format_weight: torch_npu left %d weights in their own format: set "
            "torch.npu.config.allow_internal_format = True before",
            left,
        )


def npu_format_cast_via_cpu(
    self: Tensor, acl_format: int, customize_dtype: int | None = None, input_dtype: int | None = None
) -> Tensor:
    """The tensor in another format; torch_npu converts it on the device, which gives the same layout."""
    _on_npu("npu_format_cast_via_cpu", self, "the tensor")
    return _cast(self, acl_format, customize_dtype, input_dtype)


def _format_of(module: nn.Module) -> int | None:
    if isinstance(module, nn.Linear) or type(module).__name__ in _QUANTISED:
        return FRACTAL_NZ
    if isinstance(module, nn.Conv2d) and module.groups == 1 and module.weight.dtype == torch.float16:
        return FRACTAL_Z
    return None


def _number_of(tensor: Tensor) -> int:
    import torch_npu  # present whenever a tensor lives on an NPU

    return int(torch_npu.get_npu_format(tensor))


def _on_npu(call: str, tensor: Tensor, what: str) -> None:
    if tensor.device.type != "npu":
        raise WeightsOnHost(call, f"{what} is on {tensor.device.type!r}")


def _cast(tensor: Tensor, acl_format: int, *dtypes: int | None) -> Tensor:
    import torch_npu  # present whenever a tensor lives on an NPU

    given = dict(zip(("customize_dtype", "input_dtype"), dtypes, strict=False))
    named: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    result: Tensor = torch_npu.npu_format_cast(tensor, acl_format, **named)
    return result
