"""Inputs reach their buffers whatever they are like; the driver's copy is used for those that are like them."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import air_aclgraph
from aclgraph_backend import executable
from air_aclgraph import HostRuntime, _copies, native
from air_aclgraph._copies import Copies, Driver
from air_aclgraph.device._npu import launches_block

NZ = 29
PLAIN = frozenset((-1, 0, 1, 2, 30))

_MEMCPY = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_ulong,
    ctypes.c_void_p,
    ctypes.c_ulong,
    ctypes.c_int,
    ctypes.c_void_p,
)
_CUDA_MEMCPY = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int, ctypes.c_void_p
)
_FORMAT = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.POINTER(ctypes.c_void_p))


class HostDriver:
    """A driver of CPU memory: copies at once, counts its copies, and knows formats that tests give to tensors."""

    stream = 77

    def __init__(self, code: int = 0) -> None:
        self.copies = 0
        self.code = code
        self.formats: dict[int, int] = {}
        self._memcpy = _MEMCPY(self._copy)
        self._format = _FORMAT(lambda tensor: self.formats.get(int(tensor[0] or 0), 2))

    def _copy(self, to: int, room: int, source: int, count: int, kind: int, stream: int) -> int:
        assert room == count
        return self._moved(to, source, count, kind, stream)

    def _moved(self, to: int, source: int, count: int, kind: int, stream: int | None) -> int:
        if self.code == 0:
            assert (kind, stream or 0) == (3, self.stream)
            ctypes.memmove(to, source, count)
            self.copies += 1
        return self.code

    def driver(self) -> Driver:
        addresses = [ctypes.cast(call, ctypes.c_void_p).value for call in (self._memcpy, self._format)]
        return Driver(addresses[0] or 0, addresses[1] or 0, lambda device: self.stream, PLAIN, 0)

    def made(self, *, singly: bool = True) -> Copies:
        copies = _copies.through(self.driver(), lambda buffers, first, second: singly)
        assert copies is not None
        return copies


class CudaDriver(HostDriver):
    """The same with CUDA's copy: memory has no formats, and the default stream is 0."""

    stream = 0

    def driver(self) -> Driver:
        self._cuda = _CUDA_MEMCPY(self._moved)
        address = ctypes.cast(self._cuda, ctypes.c_void_p).value
        return Driver(address or 0, 0, lambda device: self.stream, frozenset(), 0, is_cuda=True)


def has_library() -> None:
    if native.library() is None:
        pytest.skip("needs a C++ compiler, as the builtins do")


@pytest.fixture
def npu_driver() -> HostDriver:
    has_library()
    return HostDriver()


@pytest.fixture
def cuda_driver() -> CudaDriver:
    has_library()
    return CudaDriver()


@pytest.fixture(params=[HostDriver, CudaDriver])
def driver(request: pytest.FixtureRequest) -> HostDriver:
    has_library()
    made: HostDriver = request.param()
    return made


def filled(count: int, shape: tuple[int, ...] = (4, 16)) -> list[Tensor]:
    return [torch.zeros(shape) for _ in range(count)]


@pytest.mark.parametrize("count", [1, 3, _copies.DIRECT_TENSORS])
def test_tensors_like_their_buffers_are_copied_by_the_driver(driver: HostDriver, count: int) -> None:
    buffers, sources = filled(count), [torch.randn(4, 16) for _ in range(count)]
    driver.made()(buffers)(*sources)
    assert driver.copies == count
    assert all(map(torch.equal, buffers, sources))


UNLIKE: dict[str, Callable[[], Tensor]] = {
    "other strides": lambda: torch.randn(16, 4).t(),
    "an expanded one": lambda: torch.randn(16).expand(4, 16),
    "another dtype": lambda: torch.randn(4, 16).double(),
    "an address off the driver's alignment": lambda: torch.randn(65)[1:].view(4, 16),
    "a parameter": lambda: torch.nn.Parameter(torch.randn(4, 16)),
    "a conjugate's imaginary part": lambda: torch.randn(4, 16, dtype=torch.complex64).conj().imag,
}


@pytest.mark.parametrize("made", UNLIKE.values(), ids=UNLIKE)
def test_a_tensor_unlike_its_buffer_is_copied_by_torch(
    driver: HostDriver, made: Callable[[], Tensor]
) -> None:
    (buffer,), source = filled(1), made()
    with torch.no_grad():
        driver.made()([buffer])(source)
    assert driver.copies == 0
    assert torch.equal(buffer, source.detach().to(buffer.dtype))


def test_nothing_is_copied_by_cuda_while_another_device_is_the_current_one(cuda_driver: CudaDriver) -> None:
    (buffer,), source = filled(1), torch.randn(4, 16)
    copy = cuda_driver.made()([buffer])
    cuda_driver.stream = _copies.ELSEWHERE
    copy(source)
    assert cuda_driver.copies == 0
    assert torch.equal(buffer, source)
    cuda_driver.stream = 0
    copy(source.mul_(2))
    assert cuda_driver.copies == 1
    assert torch.equal(buffer, source)


def test_W32_the_memory_format_is_asked_in_every_call(npu_driver: HostDriver) -> None:
    (buffer,), plain, private = filled(1), torch.randn(4, 16), torch.randn(4, 16)
    copy = npu_driver.made()([buffer])
    copy(plain)
    npu_driver.formats[private._cdata] = NZ
    copy(private)
    assert npu_driver.copies == 1
    npu_driver.formats[plain._cdata] = (
        NZ  # as `npu_format_cast_` changes a tensor that was plain in the first call
    )
    copy(plain)
    assert npu_driver.copies == 1
    npu_driver.formats.clear()
    copy(private)
    assert npu_driver.copies == 2
    assert torch.equal(buffer, private)


@pytest.mark.parametrize("native_library", [True, False], ids=["with the library", "without it"])
def test_W32_the_batched_copy_takes_no_private_format(
    npu_driver: HostDriver, monkeypatch: pytest.MonkeyPatch, native_library: bool
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(torch, "_foreach_copy_", _counting(torch._foreach_copy_, seen))
    buffers, sources = filled(6), [torch.randn(4, 16) for _ in range(6)]
    formats = npu_driver.formats
    without = _copies.formats_asked(lambda tensor: formats.get(tensor._cdata, 2) in PLAIN)
    copy = (npu_driver.made(singly=False) if native_library else without)(buffers)
    copy(*sources)
    assert seen == [6]
    formats[sources[3]._cdata] = NZ
    copy(*[source.mul_(2) for source in sources])
    assert seen == [6]
    assert all(map(torch.equal, buffers, sources))


def _counting(call: Callable[..., Any], seen: list[int]) -> Callable[..., Any]:
    def counted(targets: list[Tensor], *rest: Any) -> Any:
        seen.append(len(targets))
        return call(targets, *rest)

    return counted


def mixed() -> list[Tensor]:
    return [torch.randn(4), torch.arange(4), torch.randn(3), torch.tensor([True, False])]


def test_tensors_of_one_dtype_are_copied_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(torch, "_foreach_copy_", _counting(torch._foreach_copy_, seen))
    sources = mixed()
    buffers = [torch.zeros_like(source) for source in sources]
    _copies.batched(buffers)(*sources)
    assert seen == [2]
    assert all(map(torch.equal, buffers, sources))
    targets = [torch.zeros_like(source) for source in sources]
    _copies.back(buffers)(*targets)
    assert seen == [2, 2]
    assert all(map(torch.equal, targets, sources))


@pytest.mark.parametrize("turn", [torch.conj, torch._neg_view])
def test_conjugated_and_negated_views_are_copied_by_themselves(turn: Callable[[Tensor], Tensor]) -> None:
    def three(make: Callable[..., Tensor]) -> list[Tensor]:
        plain, turned, last = (make(3, dtype=torch.complex64) for _ in range(3))
        return [plain, turn(turned), last]

    sources, buffers, targets = three(torch.randn), three(torch.zeros), three(torch.zeros)
    _copies.batched(buffers)(*sources)
    assert all(map(torch.equal, buffers, sources))
    _copies.back(buffers)(*targets)
    assert all(map(torch.equal, targets, sources))


def test_a_graph_takes_several_complex_arguments_of_which_one_is_conjugated() -> None:
    x, y, z = (torch.randn(3, 3, dtype=torch.complex64) for _ in range(3))
    run = executable(torch.addmm, x, y.conj(), z)
    for _ in range(3):
        assert torch.equal(run(x, y.conj(), z), torch.addmm(x, y.conj(), z))


@pytest.mark.parametrize("native_library", [True, False], ids=["with the library", "without it"])
def test_what_is_taken_back_into_a_private_format_is_copied_one_by_one(
    npu_driver: HostDriver, monkeypatch: pytest.MonkeyPatch, native_library: bool
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(torch, "_foreach_copy_", _counting(torch._foreach_copy_, seen))
    buffers, targets = [torch.randn(4, 16) for _ in range(3)], filled(3)
    formats = npu_driver.formats
    without = _copies.formats_asked(
        lambda tensor: formats.get(tensor._cdata, 2) in PLAIN, _copies.back_one_by_one, _copies.back
    )
    made = _copies.back_through(npu_driver.driver()) if native_library else without
    assert made is not None
    copy = made(buffers)
    copy(*targets)
    assert seen == [3]
    assert all(map(torch.equal, targets, buffers))
    formats[targets[1]._cdata] = NZ
    for target in targets:
        target.zero_()
    copy(*targets)
    assert seen == [3]
    assert all(map(torch.equal, targets, buffers))


def test_large_tensors_are_left_to_the_device(driver: HostDriver) -> None:
    size = _copies.DIRECT_BYTES // 4 + 1
    buffer, source = torch.zeros(size), torch.randn(size)
    driver.made()([buffer])(source)
    assert driver.copies == 0
    assert torch.equal(buffer, source)


def test_many_tensors_are_copied_in_one_call(driver: HostDriver) -> None:
    count = _copies.DIRECT_TENSORS + 1
    buffers, sources = filled(count), [torch.randn(4, 16) for _ in range(count)]
    driver.made()(buffers)(*sources)
    assert driver.copies == 0
    assert all(map(torch.equal, buffers, sources))


def test_what_the_driver_refuses_is_copied_by_torch(driver: HostDriver) -> None:
    buffers, sources = filled(2), [torch.randn(4, 16) for _ in range(2)]
    driver.code = 107002
    driver.made()(buffers)(*sources)
    assert driver.copies == 0
    assert all(map(torch.equal, buffers, sources))


def test_a_buffer_given_as_its_own_source_stays_as_it_is(driver: HostDriver) -> None:
    buffer = torch.randn(4, 16)
    before = buffer.clone()
    driver.made()([buffer])(buffer)
    assert driver.copies == 0
    assert torch.equal(buffer, before)


@pytest.mark.parametrize("wrong", [(), (None,), ("text",), (torch.zeros(4, 16), torch.zeros(4, 16))])
def test_wrong_arguments_are_errors_not_crashes(driver: HostDriver, wrong: tuple[Any, ...]) -> None:
    copy = driver.made()(filled(1))
    with pytest.raises(TypeError):
        copy(*wrong)


def test_the_copy_keeps_its_buffers_and_ends_with_the_last_reference(driver: HostDriver) -> None:
    buffer = torch.zeros(4, 16)
    storage = torch.zeros(4, 16).untyped_storage()
    for _ in range(200):
        copy = driver.made()([buffer])
        copy(torch.ones(4, 16))
        del copy
    assert storage.nbytes() == 256
    copy = driver.made()([torch.empty(4, 16)])
    copy(torch.ones(4, 16))  # the only other reference to the buffer is the copy's
    assert driver.copies == 201


def test_calls_of_an_executable_agree_with_eager_through_the_drivers_copy(driver: HostDriver) -> None:
    class Direct(HostRuntime):
        def copies(self) -> Copies:  # type: ignore[override]  # a host runtime with a driver
            return driver.made()

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return (x * 2 + y,)

    run = executable(step, torch.zeros(4, 16), torch.zeros(4, 16), runtime=Direct())
    kinds: list[Callable[[], Tensor]] = [lambda: torch.randn(4, 16), *list(UNLIKE.values())[:2]]
    for x, y in [(first(), second()) for _ in range(2) for first in kinds for second in kinds]:
        assert torch.equal(run(x, y)[0], step(x, y)[0])
    assert driver.copies == 2  # the second time that both are like their buffers
    assert run.stats()["captures"] == 1


def test_one_small_input_of_a_device_graph_is_copied_without_an_operator(accelerator: str) -> None:
    if accelerator == "npu" and launches_block():
        pytest.skip("torch_npu waits for each of its operators")
    graph = torch.fx.symbolic_trace(lambda x: (torch.ops.aten.mul.Tensor(x, 2),))
    x = torch.ones(4, 16, device=accelerator)
    run = air_aclgraph.compile_graph(graph, [x])
    run(x)
    entered = _entered(lambda: run(x))
    assert "copy_inputs" in entered
    assert "copy_" not in entered


@pytest.mark.parametrize("count", [2, 8])
def test_several_inputs_of_a_device_graph_reach_it_by_the_copy_that_is_faster_here(
    accelerator: str, count: int
) -> None:
    graph = torch.fx.symbolic_trace(_SUMS[count])
    run = air_aclgraph.compile_graph(graph, [torch.ones(4, 16, device=accelerator)] * count)
    for step in range(4):
        inputs = [torch.full((4, 16), float(step + index), device=accelerator) for index in range(count)]
        (result,) = run(*inputs)
        assert result.unique().tolist() == [sum(range(step, step + count))]
    assert run.stats()["captures"] == 1


def test_inputs_written_just_before_a_call_are_read_by_it(accelerator: str) -> None:
    graph = torch.fx.symbolic_trace(lambda x, y: (torch.ops.aten.mul.Tensor(x, y),))
    x, y = (torch.ones(4, 16, device=accelerator) for _ in range(2))
    run = air_aclgraph.compile_graph(graph, [x, y])
    outputs = []
    for step in range(50):
        x.fill_(step)  # queued by torch_npu when the task queue is on, and not launched yet
        outputs.append(run(x, y + 1)[0].clone())
    assert [output.unique().tolist() for output in outputs] == [[2.0 * step] for step in range(50)]


def test_inputs_that_are_not_like_their_buffers_reach_a_device_graph(accelerator: str) -> None:
    graph = torch.fx.symbolic_trace(lambda x: (torch.ops.aten.mul.Tensor(x, 2),))
    run = air_aclgraph.compile_graph(graph, [torch.ones(4, 16, device=accelerator)])
    for name, make in UNLIKE.items():
        if name == "another dtype" or "conjugate" in name:
            continue  # a graph of one dtype refuses them before
        source = make().detach()
        assert torch.equal(run(source.to(accelerator))[0].cpu(), source * 2), name
        moved = torch.zeros(65, device=accelerator)[1:].view(4, 16).copy_(source.contiguous().to(accelerator))
        assert torch.equal(run(moved)[0].cpu(), source * 2), name


def _sum(*tensors: Tensor) -> tuple[Tensor]:
    return (functools.reduce(torch.ops.aten.add.Tensor, tensors),)


_SUMS: dict[int, Callable[..., tuple[Tensor]]] = {
    2: lambda a, b: _sum(a, b),
    8: lambda a, b, c, d, e, f, g, h: _sum(a, b, c, d, e, f, g, h),
}


def _entered(call: Callable[[], object]) -> list[str]:
    names: list[str] = []

    def seen(frame: object, event: str, argument: Any) -> None:
        if event == "c_call":
            names.append(argument.__name__)

    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(None)
    return names
