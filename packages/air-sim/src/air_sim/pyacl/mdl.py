"""`acl.mdl`: offline models, their descriptions, and sets of buffers to run them with."""

from __future__ import annotations

import ctypes
from typing import Any

from air_sim.pyacl._library import code, pointer, size, text


class _Dims(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char * 128), ("count", ctypes.c_size_t), ("dims", ctypes.c_int64 * 128))


def load_from_file(path: str) -> tuple[int, int]:
    """Loads an .om file: the number of the model."""
    number = ctypes.c_uint32()
    failed = code("aclmdlLoadFromFile", path.encode(), ctypes.byref(number))
    return number.value, failed


def unload(model: int) -> int:
    """Gives a model back."""
    return code("aclmdlUnload", model)


def create_desc() -> int:
    """An empty description."""
    return pointer("aclmdlCreateDesc")


def destroy_desc(desc: int) -> int:
    """Gives a description back."""
    return code("aclmdlDestroyDesc", desc)


def get_desc(desc: int, model: int) -> int:
    """Fills a description with what a model takes and gives."""
    return code("aclmdlGetDesc", desc, model)


def get_num_inputs(desc: int) -> int:
    """How many tensors it takes."""
    return size("aclmdlGetNumInputs", desc)


def get_num_outputs(desc: int) -> int:
    """How many tensors it gives."""
    return size("aclmdlGetNumOutputs", desc)


def get_input_size_by_index(desc: int, index: int) -> int:
    """Bytes of an input."""
    return size("aclmdlGetInputSizeByIndex", desc, index)


def get_output_size_by_index(desc: int, index: int) -> int:
    """Bytes of an output."""
    return size("aclmdlGetOutputSizeByIndex", desc, index)


def get_input_name_by_index(desc: int, index: int) -> str:
    """Name of an input."""
    return text("aclmdlGetInputNameByIndex", desc, index)


def get_output_name_by_index(desc: int, index: int) -> str:
    """Name of an output."""
    return text("aclmdlGetOutputNameByIndex", desc, index)


def get_input_data_type(desc: int, index: int) -> int:
    """Number of the type of an input."""
    return code("aclmdlGetInputDataType", desc, index)


def get_output_data_type(desc: int, index: int) -> int:
    """Number of the type of an output."""
    return code("aclmdlGetOutputDataType", desc, index)


def get_input_dims(desc: int, index: int) -> tuple[dict[str, Any], int]:
    """Name and sizes of an input."""
    return _dims("aclmdlGetInputDims", desc, index)


def get_output_dims(desc: int, index: int) -> tuple[dict[str, Any], int]:
    """Name and sizes of an output."""
    return _dims("aclmdlGetOutputDims", desc, index)


def _dims(name: str, desc: int, index: int) -> tuple[dict[str, Any], int]:
    found = _Dims()
    failed = code(name, desc, index, ctypes.byref(found))
    sizes = list(found.dims[: found.count])
    return {"name": found.name.decode(), "dimCount": found.count, "dims": sizes}, failed


def create_dataset() -> int:
    """An empty set of buffers."""
    return pointer("aclmdlCreateDataset")


def destroy_dataset(dataset: int) -> int:
    """Gives a set back; its buffers stay."""
    return code("aclmdlDestroyDataset", dataset)


def add_dataset_buffer(dataset: int, buffer: int) -> tuple[int, int]:
    """Appends a buffer: the set, and the error code."""
    return dataset, code("aclmdlAddDatasetBuffer", dataset, buffer)


def get_dataset_num_buffers(dataset: int) -> int:
    """How many buffers a set has."""
    return size("aclmdlGetDatasetNumBuffers", dataset)


def get_dataset_buffer(dataset: int, index: int) -> int:
    """One buffer of a set."""
    return pointer("aclmdlGetDatasetBuffer", dataset, index)


def execute(model: int, inputs: int, outputs: int) -> int:
    """Runs a model and waits."""
    return code("aclmdlExecute", model, inputs, outputs)


def execute_async(model: int, inputs: int, outputs: int, stream: int) -> int:
    """Puts a run of a model on a stream."""
    return code("aclmdlExecuteAsync", model, inputs, outputs, stream)
