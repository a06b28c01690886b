"""One region of a graph as a call: compiled by Inductor for the sizes that it is first called with.

    region(x, w)  ->  Inductor's code for float32[8, 16], float32[16, 4]

The code is made for tensors of exactly these sizes and strides, once for each that comes.  What it gives back is laid
out as the operators of the region would have it, in memory of its own.  Where Inductor fails on a region, the region
runs its operators, and says why.  What it writes among its inputs, it writes in place.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule, Interpreter
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils._python_dispatch import _disable_current_modes

from air_aclgraph.fused._runs import is_write
from air_graph import leaf_storages, mend_layouts, storage_of, without_writes
from air_graph.errors import first_line

log = logging.getLogger(__name__)

Code = Callable[[list[Any]], Sequence[Any]]
"""What Inductor makes of a region: takes its inputs in a list, which it empties."""


#: For so many sizes there is code; captures hold theirs, and what is called again is made again.
MADE: Final = 1024


@dataclass(frozen=True)
class Ground:
    """How a runtime deals with such code."""

    call: Callable[[Code, list[Any]], Sequence[Any]] = lambda code, args: code(args)
    why_unknown: Callable[[Code], str | None] = lambda code: None
    """Why it cannot record a piece of code, if it cannot."""
    is_late: Callable[[], bool] = lambda: False
    """Whether it is too late to make code."""


INDUCTOR: Final = {
    "graph_partition": False,
    "triton.cudagraphs": False,
    "cpp_wrapper": False,
    "freezing": False,
    "memory_planning": False,
    "emulate_precision_casts": True,
}
"""Inductor's own options: plain code whose half-precision results are rounded where eager rounds them."""


#: A kernel in what Inductor writes, C++ or Triton.
KERNEL: Final = re.compile(r"^(\w+) = async_compile\.\w+\(", re.MULTILINE)


@dataclass(frozen=True)
class CodeForSizes:
    """The code of a region for one set of sizes; `reason` says why it is the region's operators."""

    code: Code
    form: tuple[tuple[Any, ...], ...]
    kernels: tuple[str, ...] = ()
    reason: str | None = None


class Region:
    """Calls what was made for the sizes of its arguments."""

    def __init__(self, name: str, gm: GraphModule, ground: Ground) -> None:
        self.__name__ = self.name = name
        self.gm = gm
        self.made: dict[Any, CodeForSizes] = {}
        self._ground = ground

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        key = tuple(map(_form, args))
        made = self.made.get(key)
        if made is None:
            made = self.made[key] = self._late() if self._ground.is_late() else self._make(args)
            if len(self.made) > MADE:
                del self.made[next(iter(self.made))]
        if made.reason is not None:
            return tuple(made.code(list(args)))
        return _laid_out(self._ground.call(made.code, list(args)), made.form, args)

    def __deepcopy__(self, memo: dict[int, Any]) -> Region:
        return self

    def explain(self) -> dict[str, Any]:
        """How many operators, and what was made of them for which sizes."""
        return {
            "region": self.name,
            "operators": [str(n.target) for n in self.gm.graph.nodes if n.op == "call_function"],
            "made": [
                {"kernels": list(made.kernels), "stayed ATen": made.reason or ""}
                for made in self.made.values()
            ],
        }

    def _late(self) -> CodeForSizes:
        """Its operators: a device that captures can neither load kernels nor try them out."""
        return self._operators("these sizes and strides came first inside a capture")

    def _operators(self, reason: str) -> CodeForSizes:
        log.warning("%s runs as ATen operators: %s", self.name, reason)
        return CodeForSizes(lambda given: Interpreter(self.gm).run(*given), (), reason=reason)

    def _make(self, args: Sequence[Any]) -> CodeForSizes:
        try:
            with _aside():
                code, form, kernels = compiled(self.gm, args)
        except Exception as error:  # whatever Inductor raises: the region still has its operators
            return self._operators(f"Inductor failed: {type(error).__name__}: {first_line(error)}")
        unknown = self._ground.why_unknown(code)
        return CodeForSizes(code, form, kernels) if unknown is None else self._operators(unknown)


@contextlib.contextmanager
def _aside() -> Iterator[None]:
    """Inside, nothing is recorded, and tensors are ordinary ones."""
    with _disable_current_modes(), torch.inference_mode(False), torch.no_grad():
        yield


def compiled(
    gm: GraphModule, args: Sequence[Any]
) -> tuple[Code, tuple[tuple[Any, ...], ...], tuple[str, ...]]:
    """Inductor's code for arguments like these, how its results are to lie, and the names of its kernels."""
    from torch._guards import TracingContext, tracing
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.virtualized import V
    from torch.fx.experimental.proxy_tensor import make_fx

    mode = FakeTensorMode()
    with mode:
        fakes = [_like(value) for value in args]
        form = _forms_of(gm, mode, fakes)
        with config.patch(INDUCTOR):  # under the mode: what is made from no tensor is to be fake, too
            traced = make_fx(_functional(gm), decomposition_table=select_decomp_table())(*fakes)
    with config.patch(INDUCTOR):
        results = traced.graph.output_node()
        results.meta["user_visible_output_idxs"] = range(len(form))
        with V.set_fake_mode(mode), tracing(TracingContext(mode)):
            made: Any = compile_fx_inner(traced, fakes, cudagraphs=None, is_inference=True, layout_opt=False)
    return made, form, tuple(KERNEL.findall(made.source_code))


def _functional(gm: GraphModule) -> Callable[..., Any]:
    """The region as Inductor wants it: what it writes are copies into its inputs at the end, which Inductor undoes."""
    run: Callable[..., Any] = Interpreter(gm).run
    writes = any(is_write(node) for node in gm.graph.nodes if node.op == "call_function")
    return without_writes(run) if writes else run


def _forms_of(gm: GraphModule, mode: FakeTensorMode, fakes: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
    """How the operators of the region lay its results out, also where torch's fake kernels say it wrongly."""
    FakeTensorProp(gm, mode).propagate_dont_convert_inputs(*fakes)
    mend_layouts(gm)
    results: Any = gm.graph.output_node().args[0]
    return tuple(_form(node.meta["val"]) for node in results)


def _like(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)


def _form(value: Any) -> tuple[Any, ...]:
    if isinstance(value, Tensor):
        return (tuple(value.shape), value.stride(), value.dtype, value.device)
    return (type(value), value)


def _laid_out(
    results: Sequence[Any], form: Sequence[tuple[Any, ...]], args: Sequence[Any]
) -> tuple[Any, ...]:
    """The results where they lie as the operators would have them, else copies that do."""
    taken = set(leaf_storages(args))
    laid = []
    for result, wanted in zip(results, form, strict=True):
        storage = storage_of(result)
        if storage in taken or result.stride() != wanted[1] or result.storage_offset():
            own = torch.empty_strided(result.shape, wanted[1], dtype=result.dtype, device=result.device)
            result = own.copy_(result)
        taken.add(storage)
        laid.append(result)
    return tuple(laid)
