"""Which values may share a storage, so that a write in place never changes a value that is read later."""

from __future__ import annotations

from collections.abc import Iterator

from air_geir.ir import Graph, Node, Port
from air_geir.reference.kernels import kernel_for


class Aliases:
    """Groups of values that may share storage, and when each value is read for the last time."""

    def __init__(self, graph: Graph) -> None:
        self._root: dict[Port, Port] = {}
        self._members: dict[Port, list[Port]] = {}
        self._order = {node: i for i, node in enumerate(graph)}
        for node in graph:
            self._join(node)

    def _join(self, node: Node) -> None:
        kernel = kernel_for(node.op_type)
        for port in node.outputs:
            self._root[port] = port
        if kernel is None:
            return
        for name in kernel.views:
            shared = node.input(name)
            for port in node.outputs if shared is not None else ():
                self._put(port, shared)
        for name, index in (kernel.writes or {}).items():
            self._put(node.outputs[index], node.input(name))

    def _put(self, port: Port, beside: Port | None) -> None:
        if beside is None:
            return
        root = self._root[beside]
        self._root[port] = root
        self._members.setdefault(root, [root]).append(port)

    def root(self, port: Port) -> Port:
        """The value whose storage this one may use."""
        return self._root.get(port, port)

    def separate(self, port: Port) -> None:
        """The value has its own storage from here on."""
        root = self.root(port)
        if root is not port and port in self._members.get(root, ()):
            self._members[root].remove(port)
        self._root[port] = port

    def must_own(self, port: Port, writer: Node) -> bool:
        """True when writing to this value would write to an input or to something read later."""
        root = self.root(port)
        if root is port or self._stands_for_input(port):
            return False
        if root.node.is_input or root.node.op_type == "Const":
            return True
        return any(self._read_after(m, writer) for m in self._members.get(root, ()) if m is not port)

    def endangered(self, written: Port, writer: Node) -> Iterator[Port]:
        """Values in the same storage that somebody reads after the write."""
        root = self.root(written)
        later = set(writer.outputs)
        for member in list(self._members.get(root, ())):
            if member is written or member in later or self._order[member.node] > self._order[writer]:
                continue
            if not member.node.is_input and self._read_after(member, writer):
                yield member

    def _stands_for_input(self, port: Port) -> bool:
        """True for the output that stands for an input the operator wrote."""
        node = port.node
        kernel = kernel_for(node.op_type)
        for name, index in ((kernel.writes if kernel else None) or {}).items():
            if node.outputs[index] is port:
                source = node.input(name)
                return source is not None and (source.node.is_input or self._stands_for_input(source))
        return False

    def _read_after(self, port: Port, writer: Node) -> bool:
        return any(self._order[user] > self._order[writer] for user in port.users)
