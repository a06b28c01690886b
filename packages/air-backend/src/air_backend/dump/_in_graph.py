"""`dump_config` where the graph is captured: an operator after each tensor that writes it, in every replay.

    add = aten.add(x, 1)                        add = aten.add(x, 1)
                                  ->            air_backend.save_tensor(add, '<folder>/add')

The file is `<node>_device_<device>_<count>.pt` in the folder of the rank; the count goes up with every run of the
operator: 0 for the first call, 1 for the next. A node whose name another graph of the process has taken there is called
`<node>.<graph>`. What the model itself saves with `torch_npu.save_npugraph_tensor` is not written twice. On the host
the operator is a task of the capture like any other; on an NPU the tensor is copied to the host on the operator's own
stream and a host callback of the replay writes it.
"""

from __future__ import annotations

import errno
import logging
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import fx

from air_backend.dump._marks import chosen, is_marked
from air_backend.errors import DumpUnsupported
from air_graph import files, forks
from air_graph.errors import CannotWrite

log = logging.getLogger(__name__)

_LIBRARY: Final = torch.library.Library("air_backend", "FRAGMENT")
_LIBRARY.define("save_tensor(Tensor value, str path) -> ()")

SAVE: Final = torch.ops.air_backend.save_tensor.default
SERVED: Final = ("cpu", "npu")
SAVED_BY_MODEL: Final = "save_npugraph_tensor"

_counts: Final[Counter[str]] = Counter()
_taken: Final[dict[str, str]] = {}
"""The places that files are named after -> the graph whose they are."""
_lock: Final = forks.new_lock()


def _write(value: torch.Tensor, path: str) -> None:
    with _lock:
        number = _counts[path]
        _counts[path] += 1
    target = f"{path}_{number}.pt"
    with files.whole_file(target, "a dumped tensor") as file:
        torch.save(value, file)


def _save_on_host(value: torch.Tensor, path: str) -> None:
    _write(value.detach().clone(), f"{path}_device_cpu")


def _write_copied(spec: Any, path: str) -> None:
    """The host callback of a replay: torch_npu hands over the bytes of the copy, with its shape and type."""
    _, buffer, shape, dtype = spec
    value = (
        torch.frombuffer(bytearray(buffer), dtype=dtype).reshape(shape) if len(buffer) else torch.empty(shape)
    )
    try:
        _write(value, path)
    except CannotWrite as error:  # the driver calls: nobody would see it raised
        log.error("%s", error)


def _save_on_npu(value: torch.Tensor, path: str) -> None:
    import torch_npu
    from torch_npu.npu import graphs

    place = f"{path}_device_{value.device.index}"
    device = torch.get_device_module("npu")
    if not device.is_current_stream_capturing():
        _write(value.detach().cpu(), place)
        return
    copy = value.detach().to("cpu", non_blocking=True, memory_format=torch.contiguous_format)
    spec = graphs._make_npugraph_tensor_ptr_spec(copy)
    torch_npu.npu._launch_host_func_pending(device.current_stream(), _write_copied, (spec, place))


def _save_fake(value: torch.Tensor, path: str) -> None:
    return None


_LIBRARY.impl("save_tensor", _save_on_host, "CPU")
_LIBRARY.impl("save_tensor", _save_on_npu, "PrivateUse1")
_LIBRARY.impl("save_tensor", _save_fake, "Meta")
fx.node.has_side_effect(SAVE)


@dataclass(frozen=True)
class Whole:
    """What a part of a graph has to know of the whole one: whether that marks nodes, and its inputs by name."""

    marks: bool
    inputs: frozenset[str]

    @classmethod
    def of(cls, gm: fx.GraphModule) -> Whole:
        """A graph, as its parts see it."""
        holders = gm.graph.find_nodes(op="placeholder")
        return cls(chosen(gm) is not None, frozenset(node.name for node in holders))


def insert_saves(
    gm: fx.GraphModule, ground: torch.device, path: str | None, name: str, whole: Whole | None = None
) -> int:
    """Adds the operators; gives their number. Marked nodes alone count where a model marks some.

    A part of a graph leaves out what another part has made for it.
    """
    if ground.type not in SERVED:
        raise DumpUnsupported(ground.type, SERVED)
    folder = files.rank_folder(path, "the folder of dumped tensors")
    try:
        str(folder).encode()
    except UnicodeEncodeError:  # it is an argument of an operator
        refusal = OSError(errno.EILSEQ, "the path is no Unicode text")
        raise CannotWrite("the tensors of replays", folder, refusal) from None
    whole = whole or Whole.of(gm)
    nodes = [node for node in gm.graph.nodes if _is_dumped(node) and (is_marked(node) or not whole.marks)]
    nodes = [node for node in nodes if node.op != "placeholder" or node.name in whole.inputs]
    first = next(node for node in gm.graph.nodes if node.op != "placeholder")
    for node in nodes:
        place = (
            gm.graph.inserting_before(first) if node.op == "placeholder" else gm.graph.inserting_after(node)
        )
        with place:
            save = gm.graph.call_function(SAVE, (node, _place(folder, node, name)))
        save.meta = {"val": None, "stack_trace": node.meta.get("stack_trace")}
    gm.recompile()
    return len(nodes)


def _place(folder: Path, node: fx.Node, graph: str) -> str:
    """What the files of a node are named after."""
    place = str(folder / node.name)
    with _lock:
        return place if _taken.setdefault(place, graph) == graph else f"{place}.{graph}"


def _is_dumped(node: fx.Node) -> bool:
    if node.op in ("output", "get_attr") or not isinstance(node.meta.get("val"), torch.Tensor):
        return False
    return not any(SAVED_BY_MODEL in str(user.target) for user in (node, *node.users))
