"""Alias, mutation and lifetime facts of an ATen graph, kept current while passes edit it.

Two nodes share memory when their example values share a storage. Each storage has its *members* (the
nodes whose value lives in it) and its *touches* (the nodes that read or write its elements, in program
order). Views touch nothing: what they lead to is recorded where it is read. Storages reached by a callable
without a schema are *pinned*: nothing may be assumed about them.

Editing through `insert_before`, `retarget`, `replace_uses`, `replace`, `relocate` and `erase` keeps the tables right;
after any other edit call `refresh()`.
"""

from __future__ import annotations

import bisect
import operator
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch._ops import HigherOrderOperator
from torch.fx import Graph, GraphModule, Node

from air_fxpasses._fake import FakeValues
from air_fxpasses._same_value import is_same_value
from air_graph import (
    Effects,
    Ordering,
    ProgramOrder,
    Region,
    StreamOrdering,
    effects_of_node,
    keeps_gaps,
    leaf_storages,
    same_extents,
    storage_key,
    surely_disjoint,
    uses_of,
)
from air_graph import StorageKey as Storage


@dataclass(frozen=True, slots=True)
class Touch:
    """`node` reads or writes the elements of `value`."""

    node: Node
    value: Node
    reads: bool
    writes: bool


_place: Final = operator.attrgetter("_sort_key")
_position: Final = operator.attrgetter("node._sort_key")


class Facts:
    """What is known about the memory of one graph."""

    def __init__(
        self,
        gm: GraphModule,
        example_inputs: Sequence[Any] | None = None,
        ordering: Ordering | None = None,
    ) -> None:
        self.gm = gm
        self.ordering: Ordering = ordering or ProgramOrder()
        self.values = FakeValues(gm, example_inputs)
        self._alive: list[Any] = []
        self._stamps: dict[Node, tuple[Any, Any, Any]] = {}
        self._stand_ins: dict[Node, Node] = {}
        self._built = False
        self._clear()
        self.refresh()

    def _clear(self) -> None:
        self._built = False
        self._storage: dict[Node, Storage] = {}
        self._members: dict[Storage, list[Node]] = {}
        self._touches: dict[Storage, list[Touch]] = {}
        self._touched: dict[Node, list[Storage]] = {}
        self._inputs: dict[Storage, Node] = {}
        self._pinned: dict[Storage, Node] = {}
        self._regions: dict[Node, Region] = {}

    @property
    def graph(self) -> Graph:
        return self.gm.graph

    # -- example values

    def refresh(self) -> None:
        """Takes in arbitrary edits: example values of changed nodes are computed again, tables rebuilt.

        So are those of new nodes that were given the very value of another one, as `new.meta = old.meta.copy()` does.
        """
        position = 0
        owned = {id(node.meta.get("val")) for node in self._stamps}
        changed: set[Node] = set()
        stamps: dict[Node, tuple[Any, Any, Any]] = {}
        for node in self.graph.nodes:
            stamp = (node.target, node.args, node.kwargs)
            old = self._stamps.get(node)
            stamps[node] = stamp
            if node.op == "output":
                # some propagations leave a value here, though the output has no memory of its own
                node.meta.pop("val", None)
                continue
            if "val" not in node.meta:
                self.values.fill(node, position)
                changed.add(node)
            elif self._is_stale(node, old, stamp, changed) if old else id(node.meta["val"]) in owned:
                self._reevaluate(node, changed)
            position += node.op == "placeholder"
        self._stamps = stamps
        self._clear()

    def _is_stale(
        self, node: Node, old: tuple[Any, Any, Any], new: tuple[Any, Any, Any], changed: set[Node]
    ) -> bool:
        if node.op in ("placeholder", "get_attr") or "unbacked_bindings" in node.meta:
            return False
        if old[0] is not new[0] or old[1] is not new[1] or old[2] is not new[2]:
            return True
        return bool(changed) and not changed.isdisjoint(node.all_input_nodes)

    def _reevaluate(self, node: Node, changed: set[Node]) -> None:
        before = node.meta["val"]
        after = self.values.evaluate(node)
        if not is_same_value(before, after, node):
            self._set_value(node, after)
            changed.add(node)

    def _set_value(self, node: Node, value: Any) -> None:
        self._alive.append(node.meta.get("val"))
        node.meta["val"] = value
        node.meta.pop("tensor_meta", None)
        self._regions.pop(node, None)

    def take_over(self, remade: dict[Node, Node]) -> None:
        """After a graph was put back: forgets everything but the order of nodes made again."""
        for old, new in remade.items():
            self._stand_ins[new] = old
        self._stamps = {}
        self._regions = {}
        self.refresh()

    def value(self, node: Node) -> Any:
        """The example value of `node`: a fake tensor, a list of them, a size."""
        return node.meta["val"]

    def tensor(self, node: Node) -> torch.Tensor | None:
        """The example value when it is one strided tensor."""
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            return value
        return None

    def region(self, node: Node) -> Region:
        """The bytes of its storage that the value of `node` covers."""
        region = self._regions.get(node)
        if region is None:
            region = self._regions[node] = Region.of(node.meta["val"])
        return region

    # -- the tables

    def build(self) -> None:
        """Computes the alias tables if they are out of date; every question below does this first."""
        if self._built:
            return
        for node in self.graph.nodes:
            self._enrol(node)
            for touch, storage in self._touches_by(node):
                self._touches.setdefault(storage, []).append(touch)
        self._built = True

    def _enrol(self, node: Node) -> None:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            storage = storage_key(value)
            if storage is None:
                return
            self._storage[node] = storage
            self._members.setdefault(storage, []).append(node)
            if node.op in ("placeholder", "get_attr"):
                self._inputs.setdefault(storage, node)
            elif effects_of_node(node).is_unsure:
                self._pinned.setdefault(storage, node)
        elif isinstance(value, (list, tuple)):
            for storage in set(leaf_storages(value)):
                self._members.setdefault(storage, []).append(node)
                if effects_of_node(node).is_unsure:
                    self._pinned.setdefault(storage, node)

    def _touches_by(self, node: Node) -> list[tuple[Touch, Storage]]:
        """Every access of `node` to elements, noting the storages it touches."""
        if node.op in ("placeholder", "get_attr") or node.target is operator.getitem:
            return []
        found: list[tuple[Touch, Storage]] = []
        effects = effects_of_node(node)
        if effects.is_plain and not isinstance(node.target, HigherOrderOperator):
            for value in node.all_input_nodes:
                storage = self._storage.get(value)
                if storage is not None:
                    found.append((Touch(node, value, True, False), storage))
                elif isinstance(value.meta.get("val"), (list, tuple)):
                    self._pin_leaves(value, node)
        else:
            found.extend(self._accesses(node, effects))
        self._touched[node] = [storage for _, storage in found]
        return found

    def _accesses(self, node: Node, effects: Effects) -> Iterator[tuple[Touch, Storage]]:
        for use in uses_of(node):
            value = use.value
            storage = self._storage.get(value)
            if storage is None:
                if isinstance(value.meta.get("val"), (list, tuple)):
                    self._pin_leaves(value, node)
                continue
            if effects.is_unsure:
                self._pinned.setdefault(storage, node)
                yield Touch(node, value, True, True), storage
            elif use.writes:
                yield Touch(node, value, use.reads, True), storage
            elif not self._lives_in(node, storage) if use.aliases else use.reads:
                yield Touch(node, value, True, False), storage

    def _pin_leaves(self, value: Node, by: Node) -> None:
        for storage in leaf_storages(value.meta["val"]):
            self._pinned.setdefault(storage, by)

    def _lives_in(self, node: Node, storage: Storage) -> bool:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            return self._storage.get(node) == storage
        return isinstance(value, (list, tuple)) and storage in leaf_storages(value)

    # -- questions; no storage is one that nobody uses

    def storage(self, node: Node) -> Storage | None:
        """The storage the value of `node` lives in; `None` when it is not a strided tensor."""
        self.build()
        return self._storage.get(node)

    def members(self, storage: Storage | None) -> Sequence[Node]:
        """The nodes whose value lives in `storage`, in program order."""
        self.build()
        return () if storage is None else self._members.get(storage, ())

    def touches(self, storage: Storage | None) -> Sequence[Touch]:
        """Every access to elements of `storage`, in program order."""
        self.build()
        return () if storage is None else self._touches.get(storage, ())

    def input_of(self, storage: Storage | None) -> Node | None:
        """The placeholder or attribute whose memory `storage` is."""
        self.build()
        return None if storage is None else self._inputs.get(storage)

    def pinned_by(self, storage: Storage | None) -> Node | None:
        """The callable without a schema that may keep, alias or change `storage`."""
        self.build()
        return None if storage is None else self._pinned.get(storage)

    def may_overlap(self, a: Node, b: Node) -> bool:
        """Whether the values of two nodes may have a byte in common."""
        self.build()
        storage = self._storage.get(a)
        if storage is None or storage != self._storage.get(b):
            return False
        return not surely_disjoint(self.region(a), self.region(b))

    def may_follow(self, storage: Storage | None, node: Node) -> list[Touch]:
        """The accesses to `storage` by other nodes that are not sure to happen before `node`."""
        touches = self.touches(storage)
        start = 0
        if isinstance(self.ordering, ProgramOrder):
            start = bisect.bisect_left(touches, node._sort_key, key=_position)
        return [t for t in touches[start:] if t.node is not node and not self.happens_before(t.node, node)]

    def written_between(
        self, storage: Storage | None, earlier: Node, later: Node, *, but: Node | None = None
    ) -> Node | None:
        """The first that writes elements of `storage`, and may after one node and before another; `but` is left out."""
        writers = (touch.node for touch in self.touches(storage) if touch.writes and touch.node is not but)
        return next((one for one in writers if self._may_be_between(one, earlier, later)), None)

    def _may_be_between(self, node: Node, earlier: Node, later: Node) -> bool:
        return not self.happens_before(node, earlier) and not self.happens_before(later, node)

    def happens_before(self, a: Node, b: Node) -> bool:
        """`Ordering.happens_before`, where a node a pass inserted stands where the replaced one stood."""
        first, second = self._stand_in(a), self._stand_in(b)
        if first is second:
            return a is not b and a < b
        if second.op == "output":
            return True
        return first.op != "output" and self.ordering.happens_before(first, second)

    def on_one_stream(self, a: Node, b: Node) -> bool:
        """Whether one node could take the place of both; inserted nodes stand where the replaced ones stood."""
        first, second = self._stand_in(a), self._stand_in(b)
        if first is second:
            return True
        if isinstance(self.ordering, StreamOrdering):
            return self.ordering.same_stream(first, second)
        return not self.ordering.concurrent(first, second)

    def _stand_in(self, node: Node) -> Node:
        while node in self._stand_ins:
            node = self._stand_ins[node]
        return node

    def mutated_inputs(self) -> tuple[Node, ...]:
        """The placeholders and attributes whose memory the graph writes."""
        self.build()
        found = (
            owner
            for storage, owner in self._inputs.items()
            if any(t.writes for t in self._touches.get(storage, ()))
        )
        return tuple(found)

    def lifetime(self, node: Node) -> tuple[Node, Node]:
        """The node that creates the memory of `node`'s value, and the last one that touches it."""
        self.build()
        storage = self._storage.get(node)
        if storage is None:
            return node, node
        first = self._members[storage][0]
        touches = self._touches.get(storage, ())
        return first, touches[-1].node if touches else self._members[storage][-1]

    def contradictions(self) -> tuple[str, ...]:
        """The nodes whose recorded example value is not what evaluating them gives."""
        return tuple(
            node.name
            for node in self.graph.nodes
            if node.op not in ("placeholder", "get_attr", "output")
            and "unbacked_bindings" not in node.meta
            and not is_same_value(node.meta.get("val"), self.values.evaluate(node), node)
        )

    def falsehood(self, known: Collection[str] = ()) -> str | None:
        """What these facts say that is not so; `None` when they agree with a fresh look at the graph.

        `known` are contradictions that were in the graph when it was traced.
        """
        for name in self.contradictions():
            if name not in known:
                return f"the example value of '{name}' is not what its arguments give"
        if not self._built:
            return None
        fresh = Facts(self.gm, None, self.ordering)
        fresh.build()
        mine, theirs = self._summary(), fresh._summary()
        wrong = [name for name, facts in theirs.items() if mine.get(name) != facts]
        return f"the recorded memory of '{wrong[0]}' is out of date" if wrong else None

    def _summary(self) -> dict[str, tuple[str, list[tuple[str, str, bool, bool]]]]:
        """Per node with a tensor: the first node in its memory, and who touches that."""
        return {
            node.name: (
                self._members[storage][0].name,
                sorted(
                    (t.node.name, t.value.name, t.reads, t.writes) for t in self._touches.get(storage, ())
                ),
            )
            for node, storage in self._storage.items()
        }

    # -- edits

    def insert_before(
        self,
        anchor: Node,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        stands_for: Node | None = None,
    ) -> Node:
        """A new call in front of `anchor`; it has the example value its arguments give.

        To the ordering, the new node stands where `anchor` (or `stands_for`) stood.
        """
        with self.graph.inserting_before(anchor):
            node = self.graph.call_function(target, args, kwargs or {})
        origin = stands_for or anchor
        for key in ("stack_trace", "custom", "nn_module_stack"):
            if key in origin.meta:
                node.meta[key] = origin.meta[key]
        self._stand_ins[node] = origin
        node.meta["val"] = self.values.evaluate(node)
        self._index(node)
        return node

    def retarget(self, node: Node, target: Any, value: Any) -> None:
        """`node` calls `target` with the same arguments from now on, and gives `value`."""
        self._forget(node)
        node.target = target
        self._set_value(node, value)
        self._index(node)

    def replace_uses(self, old: Node, new: Node) -> None:
        """Every user of `old` uses `new`, an equal value of the same layout; views of `old` move along."""
        value = self.tensor(new)
        if value is not None and self.storage(old) != self.storage(new):
            self.relocate(old, value)
        users = list(old.users)
        for user in users:
            self._forget(user, keep_membership=True)
            user.replace_input_with(old, new)
            self._index(user, enrolled=True)

    def replace(self, old: Node, new: Node) -> None:
        """Every user of `old` uses `new` instead, as `replace_uses` does it, and `old` goes."""
        self.replace_uses(old, new)
        self.erase(old)

    def erase(self, node: Node) -> None:
        """Removes a node without users."""
        self._forget(node)
        self._alive.append(node.meta.get("val"))
        self._stamps.pop(node, None)
        if effects_of_node(node).is_unsure:
            self._clear()  # what it pinned is free again
        self.graph.erase_node(node)

    def relocate(self, node: Node, value: torch.Tensor) -> None:
        """The value of `node` lives elsewhere from now on: as `value`, views of it included."""
        self.build()
        moved = list(self._members.get(self._storage.get(node, -1), ()))
        for member in moved:
            self._forget(member)
        for member in moved:
            new = value if member is node else self.values.evaluate(member)
            self._set_value(member, new)
            self._enrol_sorted(member)
        for member in moved:
            self._index(member, enrolled=True)
        users = {u: None for member in moved for u in member.users}
        for user in users:
            self._forget(user, keep_membership=True)
            self._index(user, enrolled=True)
        for user in users:
            if keeps_gaps(user.target):
                self._follow_offset(user)

    def _follow_offset(self, node: Node) -> None:
        """A scatter's result starts at the storage offset of its base, which has moved."""
        old, new = node.meta["val"], self.values.evaluate(node)
        same_layout = same_extents(old.size(), new.size()) and same_extents(old.stride(), new.stride())
        if same_layout and not is_same_value(old, new, node):
            self.relocate(node, new)

    def _forget(self, node: Node, keep_membership: bool = False) -> None:
        if not self._built:
            return
        for storage in self._touched.pop(node, ()):
            touches = self._touches.get(storage, [])
            at = bisect.bisect_left(touches, node._sort_key, key=_position)
            while at < len(touches) and touches[at].node is node:
                del touches[at]
        if keep_membership:
            return
        self._storage.pop(node, None)
        for storage in set(leaf_storages(node.meta.get("val"))):
            members = self._members.get(storage, [])
            if node in members:
                members.remove(node)

    def _index(self, node: Node, enrolled: bool = False) -> None:
        self._stamps[node] = (node.target, node.args, node.kwargs)
        if not self._built:
            return
        if not enrolled:
            self._enrol_sorted(node)
        for touch, storage in self._touches_by(node):
            bisect.insort(self._touches.setdefault(storage, []), touch, key=_position)

    def _enrol_sorted(self, node: Node) -> None:
        self._enrol(node)
        for storage in set(leaf_storages(node.meta.get("val"))):
            members = self._members[storage]
            if len(members) > 1 and members[-2]._sort_key > node._sort_key:
                bisect.insort(members, members.pop(), key=_place)
