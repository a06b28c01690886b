"""Memory formats of tensors and where tensors live."""

from __future__ import annotations

import enum


class Format(enum.IntEnum):
    """How the elements of a tensor lie in memory; the value is the engine's number."""

    UNDEFINED = -1
    NCHW = 0
    NHWC = 1
    ND = 2
    NC1HWC0 = 3
    FRACTAL_Z = 4
    NC1HWC0_C04 = 12
    HWCN = 16
    NDHWC = 27
    FRACTAL_NZ = 29
    NCDHW = 30
    NDC1HWC0 = 32
    FRACTAL_Z_3D = 33
    NC = 35
    NCL = 47
    FRACTAL_NZ_C0_16 = 50
    FRACTAL_NZ_C0_2 = 52
    FRACTAL_NZ_C0_4 = 53
    FRACTAL_NZ_C0_8 = 54

    @property
    def is_internal(self) -> bool:
        """True for formats whose storage order is not the order of the dimensions."""
        return self not in _BASE_FORMATS


_BASE_FORMATS = frozenset(
    {
        Format.UNDEFINED,
        Format.NCHW,
        Format.NHWC,
        Format.ND,
        Format.HWCN,
        Format.NDHWC,
        Format.NCDHW,
        Format.NC,
        Format.NCL,
    }
)


class Placement(enum.IntEnum):
    """Which memory holds a tensor."""

    HOST = 0
    DEVICE = 1

    @property
    def device_type(self) -> str:
        """The spelling in `TensorDescriptor.device_type`."""
        return "CPU" if self is Placement.HOST else "NPU"
