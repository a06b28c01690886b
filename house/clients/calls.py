"""Each call of an operator that a test makes on a device, compiled alone and held against what the test got of it.

    with Calls("max-autotune") as calls:
        test.run(result)                  # the test itself stays eager
    calls.differences                     # ["aten.add.Tensor(float32[2, 3], 1.5): result 0: ..."]

So the tests of op-plugin, whose arguments nobody here chose, are a judge of both modes. What is compiled runs twice:
the first call captures or compiles, the second replays. Calls of the same operator with the same kinds of arguments are
judged once. What a call refuses in eager is the test's own affair.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten

from house.clients import peers

LARGEST: Final = 30_000_000  # elements of all arguments together
#: Move, make or describe memory; the programs of other judges are full of them.
LEFT_OUT: Final = frozenset(
    ("_local_scalar_dense", "_to_copy", "copy_", "detach", "empty", "empty_like", "empty_strided", "is_same_size",
     "lift_fresh", "new_empty", "record_stream", "resize_", "set_", "get_npu_format", "npu_format_cast")
)  # fmt: skip


@dataclass(frozen=True)
class Call:
    """An operator with its arguments, the tensors among them apart."""

    op: OpOverload
    leaves: Sequence[Any]
    spec: TreeSpec

    @classmethod
    def of(cls, op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        leaves, spec = tree_flatten((tuple(args), dict(kwargs)))
        return cls(op, leaves, spec)

    @property
    def tensors(self) -> list[Tensor]:
        return [leaf for leaf in self.leaves if isinstance(leaf, Tensor)]

    @property
    def told(self) -> str:
        """What tells it from calls of another kind."""
        return f"{self.op}({', '.join(map(_told, self.leaves))})"

    def twins(self) -> list[Tensor]:
        """Other tensors for the same call; one that is given twice has one twin."""
        made = {id(tensor): peers.twin(tensor) for tensor in self.tensors}
        return [made[id(tensor)] for tensor in self.tensors]

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """The same call with other tensors."""
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, Tensor) else leaf for leaf in self.leaves]
        args, kwargs = tree_unflatten(leaves, self.spec)
        return self.op(*args, **kwargs)


def _told(leaf: Any) -> str:
    if not isinstance(leaf, Tensor):
        return repr(leaf)[:40]
    dense = "" if leaf.is_contiguous() else f" by {list(leaf.stride())}"
    return f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}{dense} {leaf.device.type}"


class Calls(TorchDispatchMode):
    """Judges the calls made inside it; `way` is a mode of AIR or a backend."""

    def __init__(self, way: str | Callable[..., Any], device: str = "npu") -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not say it
        self.differences: list[str] = []
        self.judged: list[str] = []
        self._way = way
        self._device = device
        self._inside = False

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        call = Call.of(func, args, kwargs or {})
        if self._inside or not self._is_worth_judging(call):
            return func(*args, **(kwargs or {}))
        with self._alone():
            turns = [call.twins() for _ in range(2)]
            numbers = self._state()
            result = func(*args, **(kwargs or {}))
            self.judged.append(call.told)
            after = self._state()
            if self._way != "max-autotune" or torch.equal(numbers, after):  # its random numbers are others
                self._judge(call, turns, result, numbers)
                self._draw_again(after)
        return result

    def _is_worth_judging(self, call: Call) -> bool:
        tensors = call.tensors
        return (
            call.op._opname not in LEFT_OUT
            and any(tensor.device.type == self._device for tensor in tensors)
            and sum(tensor.numel() for tensor in tensors) <= LARGEST
            and call.told not in self.judged
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """What is compiled here, and what it calls, is not judged itself."""
        self._inside = True
        try:
            yield
        finally:
            self._inside = False

    def _judge(self, call: Call, turns: list[list[Tensor]], result: Any, numbers: Tensor) -> None:
        try:
            torch._dynamo.reset()
            compiled = torch.compile(call.run, backend=peers.own(self._way), dynamic=False)
            for tensors in turns:
                self._draw_again(numbers)
                found = compiled(tensors)
                peers.same(tree_leaves(result), tree_leaves(found), 0.0)
                peers.same(call.tensors, tensors, 0.0)
        except Exception as error:
            self.differences.append(f"{call.told}: {type(error).__name__}: {str(error)[:400]}")

    # -- random numbers: a compiled call draws those that the test drew

    def _generators(self) -> Any:
        return torch.random if self._device == "cpu" else importlib.import_module(f"torch.{self._device}")

    def _state(self) -> Tensor:
        state: Tensor = self._generators().get_rng_state()
        return state

    def _draw_again(self, numbers: Tensor) -> None:
        self._generators().set_rng_state(numbers)


def on_every_chip() -> None:
    """Tests that name the chips they were written for run on the one that is here."""
    utils: Any = importlib.import_module("torch_npu.testing.common_utils")
    for name in ("SupportedDevices", "SkipIfNotGteCANNVersion", "SkipIfNotRegistered"):
        if hasattr(utils, name):
            setattr(utils, name, lambda *_: lambda test: test)
