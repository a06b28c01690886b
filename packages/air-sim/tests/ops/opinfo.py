"""Runs torch's OpInfo samples on the npu device and on the CPU, and says how the two compare.

An outcome is one of: ``equal``; ``fallback`` (torch_npu itself ran the operator on the CPU); ``missing`` (an aclnn
function that air-sim does not implement); ``aclop`` (torch_npu has only a kernel of the old kind for it); ``refused``
(torch_npu or the function rejects the input); ``differs``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

DTYPES = (torch.float32, torch.int64, torch.bool)
FULL_DTYPES = (*DTYPES, torch.float16, torch.bfloat16, torch.int32, torch.complex64)

_MISSING = re.compile(r"(aclnn\w+): air-sim does not implement")
_ACLOP = re.compile(r"aclop|single.?op|E39999|opType", re.IGNORECASE)
_COMPOSITE_KEYS = ("CompositeExplicitAutograd", "CompositeImplicitAutograd")


@dataclass(frozen=True)
class Outcome:
    """How one operator compares in one data type."""

    kind: str
    detail: str = ""


def cases(dtypes: Iterable[torch.dtype]) -> Iterator[tuple[str, OpInfo, torch.dtype]]:
    """Every operator of OpInfo with each of the data types that it supports on the CPU, and a name for the pair."""
    for op in op_db:
        for dtype in dtypes:
            if dtype in op.supported_dtypes("cpu"):
                name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
                yield f"{name}-{str(dtype).removeprefix('torch.')}", op, dtype


def _has_kernel(func: torch._ops.OpOverload) -> bool:
    registered = torch._C._dispatch_has_kernel_for_dispatch_key
    if registered(func.name(), "PrivateUse1"):
        return True
    if registered(func.name(), "CompositeExplicitAutogradNonFunctional"):
        if not registered(func.name(), "CPU"):
            return True  # made of other operators
        packet = func.overloadpacket
        names = [getattr(packet, name).name() for name in packet.overloads() if "out" in name]
        return any(  # structured: made of the variant with out
            registered(name, "PrivateUse1") for name in names
        )
    return any(registered(func.name(), key) for key in _COMPOSITE_KEYS)


class _FellBack(TorchDispatchMode):
    """Collects the operators that torch_npu has no kernel for and therefore runs on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]  # torch's signature
        if not _has_kernel(func):
            self.names.add(func.name())
        return func(*args, **(kwargs or {}))


def _moved(value: object, device: str) -> object:
    def move(leaf: object) -> object:
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().clone().to(device)
        return torch.device(device) if isinstance(leaf, torch.device) else leaf

    return pytree.tree_map(move, value)


def _apply(op: OpInfo, sample: SampleInput, device: str) -> object:
    arguments = _moved((sample.input, tuple(sample.args), dict(sample.kwargs)), device)
    assert isinstance(arguments, tuple)
    first, rest, named = arguments
    if "device" in named:
        named["device"] = device
    return op.op(first, *rest, **named)


def _host(value: object) -> list[torch.Tensor]:
    return [leaf.detach().cpu() for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _first_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text[:240]


def _classify(error: BaseException) -> Outcome:
    text = str(error)
    if found := _MISSING.search(text):
        return Outcome("missing", found.group(1))
    if _ACLOP.search(text):
        return Outcome("aclop", _first_line(error))
    if isinstance(error, AssertionError):
        return Outcome("differs", _first_line(error))
    return Outcome("refused", _first_line(error))


def _compare(op: OpInfo, sample: SampleInput, dtype: torch.dtype) -> set[str]:
    torch.manual_seed(0)
    expected = _host(_apply(op, sample, "cpu"))
    torch.manual_seed(0)
    with _FellBack() as seen:
        actual = _host(_apply(op, sample, "npu"))
    torch.npu.synchronize()
    loose = (
        {"atol": 1e-2, "rtol": 2e-2}
        if dtype in (torch.float16, torch.bfloat16)
        else {"atol": 1e-4, "rtol": 1e-4}
    )
    assert len(actual) == len(expected), f"{len(actual)} results instead of {len(expected)}"
    for ours, theirs in zip(actual, expected, strict=True):
        if theirs.dtype == torch.float64 and ours.dtype == torch.float32:
            theirs = theirs.float()  # the device has no double: torch_npu says so and computes in float
        torch.testing.assert_close(ours, theirs, equal_nan=True, check_stride=False, **loose)
    return seen.names


def outcome(op: OpInfo, dtype: torch.dtype, count: int) -> Outcome:
    """The first way in which one of the first ``count`` samples differs, or that none does."""
    fell_back: set[str] = set()
    for sample in islice(op.sample_inputs("cpu", dtype, requires_grad=False), count):
        try:
            fell_back |= _compare(op, sample, dtype)
        except (
            RuntimeError,
            AssertionError,
            TypeError,
            ValueError,
            NotImplementedError,
            IndexError,
        ) as error:
            return _classify(error)
    return Outcome("fallback", ", ".join(sorted(fell_back))) if fell_back else Outcome("equal")
