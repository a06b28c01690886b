"""Which values of a device graph are in host memory, and which of them the host itself must compute.

torch.arange(4).to(x.device)    an engine may compute it on the device: it makes no difference
return x.cpu(), torch.ones(2)   the caller wants tensors of the CPU
torch.rand(4).to(x.device)      the numbers come from the generator of the CPU
"""

from __future__ import annotations

from typing import Final

from torch._ops import OpOverload
from torch.fx import Graph, Node

from air_graph._examples import device_kinds, example_tensors
from air_graph._random import draws_random_numbers
from air_graph._uses import writes

_COPIED: Final = "it copies from the device to the host, which waits for it"
_COMPUTED: Final = "what it computes is wanted in the memory of the host"
_BOTH: Final = "some of its results lie on the device, others in the memory of the host"
_OWN: Final = "the host computes it again in each call"
_KNOWN: Final = frozenset({"aten", "prims", "air", "air_streams", "air_backend", "air_geir", "npugraph_ex"})
"""Packages of operators whose random ones are tagged, and none of which looks elsewhere."""


def is_on_host(node: Node) -> bool:
    """Whether the tensors of a value lie in the memory of the host; a value without tensors lies nowhere."""
    found = example_tensors(node)
    return bool(found) and all(value.device.type == "cpu" for value in found)


def is_in_both(node: Node) -> bool:
    """Whether a call gives several tensors, some of the host and some of a device."""
    return len({value.device.type == "cpu" for value in example_tensors(node)}) > 1


def is_made_anew(node: Node) -> bool:
    """Whether the host must run an operator in each call, whatever it is given: random ones, and those of others."""
    op = node.target
    if not isinstance(op, OpOverload) or not is_on_host(node):
        return False
    return draws_random_numbers(node) or op.namespace not in _KNOWN


def needed_on_host(graph: Graph) -> dict[Node, str]:
    """The calls in a graph of a device that have to run on the host, each with the reason.

    They are what results in the memory of the host are computed from, writes to such memory, what is made again, and
    what gives results in both.
    """
    if not device_kinds(graph) - {"cpu"}:
        return {}
    found: dict[Node, str] = {}
    for node in reversed(graph.nodes):
        if node.op != "call_function":
            continue
        if is_on_host(node) and _is_needed(node, found):
            found[node] = _reason(node)
        elif is_in_both(node):
            found[node] = _BOTH
    return dict(reversed(found.items()))


def _is_needed(node: Node, found: dict[Node, str]) -> bool:
    if is_made_anew(node) or writes(node):
        return True
    return any(user.op == "output" or user in found for user in node.users)


def _reason(node: Node) -> str:
    if is_made_anew(node):
        return _OWN
    operands = (value for operand in node.all_input_nodes for value in example_tensors(operand))
    return _COMPUTED if all(value.device.type == "cpu" for value in operands) else _COPIED
