"""The Python module `acl` of CANN (pyACL), as far as loading and running offline models needs it.

    import acl
    acl.init(); acl.rt.set_device(0)
    number, failed = acl.mdl.load_from_file("model.om")

Names and what is returned are those of the document "pyACL API": a handle is a number, and what can fail gives an error
code, alone or as the last of a tuple. On air-sim `import acl` finds this package.
"""

from __future__ import annotations

from air_sim.pyacl import mdl, rt
from air_sim.pyacl._library import code, pointer, size, text

__all__ = [
    "create_data_buffer",
    "destroy_data_buffer",
    "finalize",
    "get_data_buffer_addr",
    "get_data_buffer_size",
    "get_recent_err_msg",
    "get_soc_name",
    "init",
    "mdl",
    "rt",
    "update_data_buffer",
]


def init(config: str | None = None) -> int:
    """Starts the runtime, with a configuration file if there is one."""
    return code("aclInit", config.encode() if config else None)


def finalize() -> int:
    """Ends it."""
    return code("aclFinalize")


def get_soc_name() -> str:
    """Name of the chip."""
    return text("aclrtGetSocName")


def get_recent_err_msg() -> str:
    """What the last failed call of this thread says; reading forgets it."""
    return text("aclGetRecentErrMsg")


def create_data_buffer(address: int, length: int) -> int:
    """A buffer that names memory of the device."""
    return pointer("aclCreateDataBuffer", address, length)


def destroy_data_buffer(buffer: int) -> int:
    """Forgets the buffer; its memory stays."""
    return code("aclDestroyDataBuffer", buffer)


def update_data_buffer(buffer: int, address: int, length: int) -> int:
    """Lets a buffer name other memory."""
    return code("aclUpdateDataBuffer", buffer, address, length)


def get_data_buffer_addr(buffer: int) -> int:
    """Where its memory is."""
    return pointer("aclGetDataBufferAddr", buffer)


def get_data_buffer_size(buffer: int) -> int:
    """How many bytes that is."""
    return size("aclGetDataBufferSizeV2", buffer)
