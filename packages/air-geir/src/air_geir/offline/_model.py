"""An offline model on the device of this process: tensors in, tensors out, checked against what it takes."""

from __future__ import annotations

import math
import os
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from air_geir.errors import EngineError
from air_geir.offline import _pyacl as pyacl
from air_geir.types import DataType, Format

_TYPES: Final = {kind.api: kind for kind in DataType}
_NOWHERE: Final = 64
"""An address for tensors without elements: nothing is read there."""
_TO_DEVICE, _TO_HOST = 1, 2
_WRITTEN: Final = "RefData_"
"""How the name of an input begins that the model writes: an export calls it so."""


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of an offline model."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    nbytes: int

    @property
    def is_written(self) -> bool:
        """Whether it is an input that the model writes."""
        return self.name.startswith(_WRITTEN)

    def __str__(self) -> str:
        return f"{self.name}: {str(self.dtype).removeprefix('torch.')}{list(self.shape)}"


def load_om(path: str | os.PathLike[str], *, device: int | None = None) -> OfflineModel:
    """Loads an offline model (`.om`) onto the device; the result is called with tensors and gives a tuple of tensors.

    Args:
        path: a file that `atc` wrote for the chip of this machine.
        device: number of the device, where torch_npu is not imported; with it, torch's current device is used.
    """
    if not (device is None or (type(device) is int and device >= 0)):
        raise EngineError(
            f"the device is {device!r}, and not a number", advice="give its number, such as 0, or none"
        )
    if not Path(path).is_file():
        raise EngineError(
            f"{path} is not a file", advice="air_geir.offline.compile_air(...) or the program atc makes one"
        )
    return OfflineModel(Path(path), pyacl.started(device))


class OfflineModel:
    """A loaded model. Called with its inputs in order: all on the CPU, or all on the NPU; results lie there, too.

    An input that the model writes has its new values after the call, wherever and however it lies.

    Attributes:
        inputs: what it takes.
        outputs: what it gives.
    """

    def __init__(self, path: Path, acl: Any) -> None:
        self._acl, self._path = acl, path
        self._lock = threading.Lock()
        self._number: int | None = None
        self._captured = False  # a graph of the program may run it again
        advice = "compile it again with atc, for this chip and this version of CANN"
        number, failed = acl.mdl.load_from_file(str(path.absolute()))
        pyacl.checked(acl, failed, "load the offline model", str(path), advice)
        self._number = number
        self._context, failed = acl.rt.get_context()
        try:
            pyacl.checked(acl, failed, "say its context", str(path))
            self.inputs, self.outputs = self._ports()
            self._given = _Buffers(acl, len(self.inputs))
            self._results = _Buffers(acl, len(self.outputs))
        except BaseException:
            acl.mdl.unload(number)
            self._number = None
            raise
        self._blocks: list[int] = []

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        place = self._check(tensors)
        dense = [t.contiguous().resolve_conj().resolve_neg() for t in tensors]
        results = [torch.empty(port.shape, dtype=port.dtype, device=place) for port in self.outputs]
        if place == "npu":
            self.run(dense, results)
        else:
            self._run_on_copies(dense, results)
        self._write_back(tensors, dense)
        return tuple(results)

    def _write_back(self, tensors: Sequence[Tensor], dense: Sequence[Tensor]) -> None:
        """What the model wrote into the dense copy of an input is taken back to the input."""
        with torch.no_grad():
            for tensor, copy, port in zip(tensors, dense, self.inputs, strict=True):
                if port.is_written and copy is not tensor:
                    tensor.copy_(copy)

    def run(self, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> None:
        """Runs on the current stream with dense tensors of the NPU; sizes and types are not checked."""
        stream = self._stream()
        self._captured = self._captured or _capturing()
        with self._lock:
            model = self._loaded()
            self._given.name([(t.data_ptr(), t.nbytes) for t in inputs])
            self._results.name([(t.data_ptr(), t.nbytes) for t in results])
            failed = self._acl.mdl.execute_async(model, self._given.dataset, self._results.dataset, stream)
        pyacl.checked(self._acl, failed, "run the offline model", str(self._path))

    @cached_property
    def _stream(self) -> Callable[[], int]:
        """The current stream of torch, with torch_npu's queue emptied: work there may still write the inputs."""
        npu = torch.get_device_module("npu")
        short = getattr(sys.modules["torch_npu"]._C, "_npu_getCurrentRawStream", None)
        return partial(short, npu.current_device()) if short else lambda: int(npu.current_stream().npu_stream)

    def _run_on_copies(self, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> None:
        """Memory of the device is taken once, and belongs to the model."""
        acl, where = self._acl, str(self._path)
        with self._lock:
            model = self._loaded()
            pyacl.checked(acl, acl.rt.set_context(self._context), "use the device", where)
            ports = (*self.inputs, *self.outputs)
            while len(self._blocks) < len(ports):
                size = max(ports[len(self._blocks)].nbytes, 1)
                block, failed = acl.rt.malloc(size, 0)
                pyacl.checked(
                    acl, failed, f"take {size} bytes of the device", where, "free tensors or other models"
                )
                self._blocks.append(block)
            sizes = [(block, port.nbytes) for block, port in zip(self._blocks, ports, strict=True)]
            self._given.name(sizes[: len(inputs)])
            self._results.name(sizes[len(inputs) :])
            for tensor, (block, size) in zip(inputs, sizes, strict=False):
                self._copy(block, tensor.data_ptr(), size, _TO_DEVICE)
            failed = acl.mdl.execute(model, self._given.dataset, self._results.dataset)
            pyacl.checked(acl, failed, "run the offline model", where)
            made = [port.is_written for port in self.inputs] + [True] * len(results)
            for tensor, (block, size), is_made in zip((*inputs, *results), sizes, made, strict=True):
                if is_made:
                    self._copy(tensor.data_ptr(), block, size, _TO_HOST)

    def _copy(self, target: int, source: int, size: int, way: int) -> None:
        if size:
            failed = self._acl.rt.memcpy(target, size, source, size, way)
            pyacl.checked(self._acl, failed, f"copy {size} bytes", str(self._path))

    def _check(self, tensors: Sequence[Any]) -> str:
        """The kind of device that all of them are on."""
        if len(tensors) != len(self.inputs):
            self._refuse(f"it takes {len(self.inputs)} tensors, {len(tensors)} were given")
        for at, (tensor, port) in enumerate(zip(tensors, self.inputs, strict=True)):
            if not isinstance(tensor, Tensor):
                self._refuse(f"input {at} is {type(tensor).__name__}, not a tensor")
            if tensor.layout != torch.strided or isinstance(tensor, FakeTensor):
                self._refuse(
                    f"input {at} is {_kind_of(tensor)}: there is no memory that the model could read"
                )
            if tensor.dtype != port.dtype or tuple(tensor.shape) != port.shape:
                found = Port(port.name, tuple(tensor.shape), tensor.dtype, 0)
                self._refuse(f"input {at} is {found}, the model was compiled for {port}")
            if tensor.device.type == "npu" and _format_of(tensor).is_internal:
                self._refuse(f"input {at} lies in the internal format {_format_of(tensor).name}")
        kinds = sorted({t.device.type for t in tensors}) or [self._default_place()]
        if len(kinds) > 1 or kinds[0] not in ("cpu", "npu"):
            self._refuse(f"its inputs lie on {' and '.join(kinds)}: give all on the CPU, or all on the NPU")
        place: str = kinds[0]
        return place

    @staticmethod
    def _default_place() -> str:
        return "npu" if pyacl.torch_works_on_npu() else "cpu"

    def _refuse(self, reason: str) -> None:
        taken = "; ".join(map(str, self.inputs)) or "nothing"
        raise EngineError(
            f"the offline model cannot be called like this: {reason}",
            where=str(self._path),
            advice=f"call it with {taken}",
        )

    def _loaded(self) -> int:
        if self._number is None:
            raise EngineError("the offline model was closed", where=str(self._path), advice="load it again")
        return self._number

    def _ports(self) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
        mdl = self._acl.mdl
        desc = mdl.create_desc()
        try:
            pyacl.checked(
                self._acl, mdl.get_desc(desc, self._number), "describe the offline model", str(self._path)
            )
            return tuple(
                tuple(self._port(desc, side, at) for at in range(count))
                for side, count in (
                    ("input", mdl.get_num_inputs(desc)),
                    ("output", mdl.get_num_outputs(desc)),
                )
            )  # type: ignore[return-value]  # two of them
        finally:
            mdl.destroy_desc(desc)

    def _port(self, desc: int, side: str, at: int) -> Port:
        mdl, where = self._acl.mdl, str(self._path)
        dims, failed = getattr(mdl, f"get_{side}_dims")(desc, at)
        pyacl.checked(self._acl, failed, f"describe {side} {at}", where)
        number = getattr(mdl, f"get_{side}_data_type")(desc, at)
        size = int(getattr(mdl, f"get_{side}_size_by_index")(desc, at))
        shape, name = tuple(dims["dims"]), dims["name"]
        if number not in _TYPES or any(dim < 0 for dim in shape):
            raise EngineError(
                f"{side} {at} ({name}) of the offline model has sizes {list(shape)} and type {number}",
                where=where,
                advice="only models of fixed sizes and of types that torch has are run: give atc --input_shape",
            )
        kind = _TYPES[number].torch
        if size != math.prod(shape) * kind.itemsize:
            raise EngineError(
                f"{side} {at} ({name}) of the offline model takes {size} bytes; {list(shape)} of {kind} has others",
                where=where,
                advice="compile the model without options that change how its inputs lie (AIPP, batches of sizes)",
            )
        return Port(name, shape, kind, size)

    def close(self) -> None:
        """Frees the model and its memory; calling it afterwards is an error."""
        with self._lock:
            if self._number is None:
                return
            self._acl.rt.set_context(self._context)
            if pyacl.torch_works_on_npu():
                torch.get_device_module("npu").synchronize()
            self._given.close()
            self._results.close()
            for block in self._blocks:
                self._acl.rt.free(block)
            self._blocks.clear()
            number, self._number = self._number, None
            pyacl.checked(
                self._acl, self._acl.mdl.unload(number), "unload the offline model", str(self._path)
            )

    def __del__(self) -> None:
        """Frees a model that is dropped without `close`, as a file is.

        Not one that ran inside a capture, whose replays need it, nor inside a capture, which would break.
        """
        if getattr(self, "_number", None) is None or sys.is_finalizing():
            return
        text = (
            f"the offline model {self._path} was dropped and not closed: use `with load_om(...)`, or close()"
        )
        warnings.warn(text, ResourceWarning, stacklevel=2, source=self)
        if not self._captured and not _capturing():
            self.close()

    def __enter__(self) -> OfflineModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Buffers:
    """A data set whose buffers point to other memory in each call."""

    def __init__(self, acl: Any, count: int) -> None:
        self._acl = acl
        self.dataset = acl.mdl.create_dataset()
        self._named: list[tuple[int, int]] = [(_NOWHERE, 0)] * count
        self._buffers = [acl.create_data_buffer(_NOWHERE, 0) for _ in range(count)]
        for buffer in self._buffers:
            pyacl.checked(acl, acl.mdl.add_dataset_buffer(self.dataset, buffer)[1], "prepare a data set")

    def name(self, memory: Sequence[tuple[int, int]]) -> None:
        """Points each buffer to an address and a size; those that have not moved since the last call are left alone."""
        if len(memory) != len(self._named):
            raise EngineError(
                f"the offline model takes {len(self._named)} tensors, {len(memory)} were given",
                advice="model.inputs and model.outputs say what it takes and gives",
            )
        for at, (named, wanted) in enumerate(zip(self._named, memory, strict=True)):
            if named != wanted:
                self._update(at, *wanted)
                self._named[at] = wanted

    def _update(self, at: int, address: int, size: int) -> None:
        failed = self._acl.update_data_buffer(self._buffers[at], address or _NOWHERE, size)
        pyacl.checked(self._acl, failed, "name the memory of a tensor")

    def close(self) -> None:
        """Frees the data set, but not the memory it points to."""
        self._acl.mdl.destroy_dataset(self.dataset)
        for buffer in self._buffers:
            self._acl.destroy_data_buffer(buffer)


def _capturing() -> bool:
    return pyacl.torch_works_on_npu() and bool(torch.get_device_module("npu").is_current_stream_capturing())


def _kind_of(tensor: Tensor) -> str:
    return "a fake tensor" if isinstance(tensor, FakeTensor) else str(tensor.layout).removeprefix("torch.")


def _format_of(tensor: Tensor) -> Format:
    torch_npu: Any = sys.modules["torch_npu"]  # a tensor is on an NPU
    return Format(torch_npu.get_npu_format(tensor))
