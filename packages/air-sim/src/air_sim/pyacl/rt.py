"""`acl.rt`: devices, contexts, streams and memory."""

from __future__ import annotations

import ctypes

from air_sim.pyacl._library import code, handle_of


def set_device(device: int) -> int:
    """The calling thread works on this device."""
    return code("aclrtSetDevice", device)


def get_device() -> tuple[int, int]:
    """The device of the calling thread."""
    number = ctypes.c_int32()
    failed = code("aclrtGetDevice", ctypes.byref(number))
    return number.value, failed


def reset_device(device: int) -> int:
    """Gives a device back."""
    return code("aclrtResetDevice", device)


def get_context() -> tuple[int, int]:
    """The context of the calling thread."""
    return handle_of("aclrtGetCurrentContext")


def set_context(context: int) -> int:
    """The calling thread works in this context."""
    return code("aclrtSetCurrentContext", context)


def create_stream() -> tuple[int, int]:
    """A stream of the device."""
    return handle_of("aclrtCreateStream")


def destroy_stream(stream: int) -> int:
    """Gives a stream back."""
    return code("aclrtDestroyStream", stream)


def synchronize_stream(stream: int) -> int:
    """Waits until a stream has done all it was given."""
    return code("aclrtSynchronizeStream", stream)


def malloc(length: int, policy: int) -> tuple[int, int]:
    """Memory of the device."""
    return handle_of("aclrtMalloc", length, policy)


def free(address: int) -> int:
    """Gives memory back."""
    return code("aclrtFree", address)


def memcpy(target: int, room: int, source: int, length: int, kind: int) -> int:
    """Copies; kind is 0 host to host, 1 host to device, 2 device to host, 3 device to device."""
    return code("aclrtMemcpy", target, room, source, length, kind)
