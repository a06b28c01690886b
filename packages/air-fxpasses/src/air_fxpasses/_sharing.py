"""Whether a result may live in the memory of an argument: the one question every reinplacing pass asks.

Let a node compute `b` from `a`, and let `b` live in `a`'s memory from that node on. The program keeps its
meaning when

* `a` and `b` name the same elements (size, strides, type), and no element of `a` has two names;
* nothing reads what was in `a` after the node wrote `b` over it, unless a later write has replaced it all
  by then (the `copy_` into a mutated input that ends a functionalised graph is such a write);
* no later write to either of them reaches the other one while that is still wanted;
* memory of the caller that the program must not change, is not changed; and no two values that the caller
  receives share memory which did not before, nor lies one of them inside a larger memory.

"Later" is asked of an `Ordering`, so all of it holds for graphs with several streams too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch._prims_common import is_contiguous_or_false
from torch.fx import Node
from torch.fx.node import map_arg

from air_fxpasses._facts import Facts, Touch
from air_fxpasses._refusal import Refusal
from air_fxpasses._scatters import slot_region
from air_fxpasses.tables import twin_of
from air_graph import (
    SCATTERS,
    DeviceLayouts,
    Region,
    addresses_storage,
    bodies_of,
    is_dense,
    keeps_gaps,
    leaf_storages,
    lies_like_operand_on_npu,
    may_keep_state,
    operator_of,
    read_alike,
    repeated_element,
    same_extents,
    surely_within,
    surroundings_of,
    view_arguments,
)

aten = torch.ops.aten

#: Positions at which an argument is read element by element, whatever its strides are.
_READ_BY_INDEX: Final[dict[object, int]] = {
    **{op: 1 for op in SCATTERS},
    aten.copy_.default: 1,
    aten.copy.default: 1,
    aten.index_put.default: 2,
    aten.index_put_.default: 2,
}

#: Operators that do nothing but copy.
_COPIES: Final = (aten.clone.default, aten._to_copy.default)

#: Operators that address their argument by the offset in its storage.
_BY_OFFSET: Final = (aten.as_strided.default, aten.as_strided_scatter.default, aten.as_strided_copy.default)


@dataclass(frozen=True, slots=True)
class Sharing:
    """`value`, computed by `node`, may live where `home` lives; `absorbed` copies become copies to themselves."""

    node: Node
    home: Node
    value: Node
    absorbed: tuple[Node, ...] = ()


@dataclass(frozen=True)
class _Question:
    facts: Facts
    node: Node
    home: Node
    value: Node
    rewrites: bool
    into_inputs: bool

    def no(self, reason: str, at: Node | None = None) -> Refusal:
        return Refusal.of(reason, self.node, at)

    # -- what touches the two memories

    @cached_property
    def home_storage(self) -> int | None:
        return self.facts.storage(self.home)

    @cached_property
    def later_at_home(self) -> list[Touch]:
        """Accesses to the elements of `home` that are not sure to precede the node."""
        return [t for t in self.facts.may_follow(self.home_storage, self.node) if self._meets_home(t)]

    @cached_property
    def of_value(self) -> Sequence[Touch]:
        return self.facts.touches(self.facts.storage(self.value))

    def _meets_home(self, touch: Touch) -> bool:
        if not self.facts.may_overlap(touch.value, self.home):
            return False
        slot = slot_region(self.facts, touch.node, touch.value)
        return slot is None or not self.covers_home(slot)

    def covers_home(self, region: Region) -> bool:
        """Whether `region` surely contains every element of `home`."""
        node: Node = self.home
        while True:
            if self.facts.region(node).same(region):
                return True
            if node.target is aten.as_strided.default or node.op in ("placeholder", "get_attr"):
                return False
            base = node.args[0] if node.args else None
            if not isinstance(base, Node) or self.facts.storage(base) != self.home_storage:
                return False
            node = base

    def before(self, a: Touch, b: Touch) -> bool:
        return self.facts.happens_before(a.node, b.node)

    # -- the copy back into an input

    @cached_property
    def absorbing(self) -> Touch | None:
        """The `copy_` that would bring the value home, and has nothing to do once it lives there."""
        for touch in self.later_at_home:
            if touch.writes and self._is_self_copy(touch):
                return touch
        return None

    def _is_self_copy(self, touch: Touch) -> bool:
        copy = touch.node
        if copy.target is not aten.copy_.default or copy.args[0] is not touch.value:
            return False
        source = copy.args[1]
        if not isinstance(source, Node) or self.facts.storage(source) != self.facts.storage(self.value):
            return False
        if not read_alike(self.facts.value(source), self.facts.value(touch.value)):
            return False
        target = self.facts.region(touch.value)
        return self._at_home(source).same(target) and self.covers_home(target)

    def _at_home(self, member: Node) -> Region:
        """Where the value, or a view of it, is once the value lives at home: the value takes the strides it finds."""
        home = self.facts.region(self.home)
        if member is self.value:
            return home
        there, here = self.facts.region(member), self.facts.region(self.value)
        return Region(there.offset - here.offset + home.offset, there.size, there.stride, there.itemsize)

    @cached_property
    def full_overwrite(self) -> Touch | None:
        """The first later access to `home`, when it replaces all of it without reading it."""
        if not self.later_at_home:
            return None
        first = self.later_at_home[0]
        if not first.writes or first.reads or not self.covers_home(self.facts.region(first.value)):
            return None
        if not all(t is first or self.before(first, t) for t in self.later_at_home):
            return None
        return first


def may_share(
    facts: Facts,
    node: Node,
    home: Node,
    value: Node,
    *,
    rewrites: bool = True,
    into_inputs: bool = False,
) -> Sharing | Refusal:
    """Whether `value`, a result of `node`, may live in the memory of `home` from `node` on.

    `rewrites` says that `node` stores something new there (it is false for a copy that just disappears);
    `into_inputs` allows homes in the memory of inputs that the program changes anyway.
    """
    ask = _Question(facts, node, home, value, rewrites, into_inputs)
    for rule in (_metadata, _provenance, _maker, _given_back, _input, _old_value, _escape, _later_writes):
        if (refusal := rule(ask)) is not None:
            return refusal
    absorbed = () if ask.absorbing is None else (ask.absorbing.node,)
    return Sharing(node, home, value, absorbed)


def _metadata(ask: _Question) -> Refusal | None:
    a, b = ask.facts.tensor(ask.home), ask.facts.tensor(ask.value)
    if a is None or b is None:
        return ask.no("it is not a plain strided tensor")
    if a.dtype != b.dtype:
        return ask.no(f"the result is {b.dtype}, the argument is {a.dtype}")
    if a.dtype is torch.float64 and a.device.type == "npu":
        return ask.no("torch_npu makes float32 of what is cast to float64, whatever torch says of it")
    if a.device != b.device:
        return ask.no(f"the result is on {b.device}, the argument on {a.device}")
    if not same_extents(a.size(), b.size()):
        return ask.no(f"the result has size {list(b.size())}, the argument {list(a.size())}")
    if a.is_conj() != b.is_conj() or a.is_neg() != b.is_neg():
        return ask.no("the argument is a conjugated or negated view")
    if (why := repeated_element(ask.facts.region(ask.home))) is not None and (
        ask.rewrites or _writes_value(ask)
    ):
        return ask.no(why)
    if not same_extents(a.stride(), b.stride()) and not _layout_is_free(ask):
        return ask.no(f"the result has strides {list(b.stride())}, the argument {list(a.stride())}")
    if ask.node.target in _COPIES and not _lie_alike_on_npu(ask):
        return ask.no("it is a dense copy of what torch_npu lays out otherwise")
    return None


def _lie_alike_on_npu(ask: _Question) -> bool:
    """Whether a copy lies like its original where torch_npu lays values out: views may need the copy."""
    if ask.facts.value(ask.home).device.type != "npu":
        return True
    layouts = DeviceLayouts()
    original, copy = layouts.of(ask.home), layouts.of(ask.value)
    return original is None or copy is None or same_extents(original.stride(), copy.stride())


def _writes_value(ask: _Question) -> bool:
    return any(t.writes for t in ask.of_value)


def _layout_is_free(ask: _Question) -> bool:
    """Whether every use of the value reads it index by index, so that its strides do not matter."""
    if not ask.rewrites or len(ask.facts.members(ask.facts.storage(ask.value))) != 1:
        return False
    for user in ask.value.users:
        position = _READ_BY_INDEX.get(user.target)
        if position is None or [i for i, a in enumerate(user.args) if a is ask.value] != [position]:
            return False
    return True


def _provenance(ask: _Question) -> Refusal | None:
    facts, value = ask.facts, ask.value
    storage = facts.storage(value)
    if storage is None or facts.storage(ask.home) is None:
        return ask.no("its memory is unknown")
    if storage == ask.home_storage:
        return ask.no("the result lives in the argument's memory already")
    if facts.input_of(storage) is not None or facts.members(storage)[0] not in (ask.node, value):
        return ask.no("the result is not memory of its own")
    for which in (ask.home_storage, storage):
        if (by := facts.pinned_by(which)) is not None:
            return ask.no(f"its memory reaches {by.target}, whose effects are unknown", by)
    offset_read = _reads_absolute_offset(ask)
    if offset_read is not None:
        return ask.no("the result is read by absolute storage offset, which would change", offset_read)
    return None


def _maker(ask: _Question) -> Refusal | None:
    """What an operator of the user's gives back may be a tensor that it keeps: its state, a table, a workspace."""
    made = ask.facts.members(ask.home_storage)[0]
    call, place = made.args if made.target is operator.getitem else (made, 0)
    keeper = _keeper(call, place) if isinstance(call, Node) else None
    return (
        None
        if keeper is None
        else ask.no(f"{keeper} gave the memory it would write, and may have kept it", made)
    )


def _given_back(ask: _Question) -> Refusal | None:
    """An operator of the user's may give back what it was given, or a view of it, where it has nothing to do."""
    if not ask.rewrites and not _writes_value(ask):
        return None
    waiting, seen = [ask.home_storage], set[int | None]()
    while waiting:
        storage = waiting.pop()
        seen.add(storage)
        for touch in ask.facts.touches(storage):
            if touch.node is ask.node or not _is_of_the_user(touch.node.target):
                continue
            for found in set(leaf_storages(touch.node.meta.get("val"))) - seen:
                if any(
                    not ask.facts.happens_before(later.node, ask.node) for later in ask.facts.touches(found)
                ):
                    return ask.no(
                        f"{touch.node.target} was given it and may have given it back, which is used later",
                        touch.node,
                    )
                waiting.append(found)
    return None


def _is_of_the_user(target: object) -> bool:
    """Whether it is no operator of torch's; what has a twin is registered as new values of what that writes."""
    return may_keep_state(target) and twin_of(target) is None


def _keeper(call: Node, place: Any) -> OpOverload | None:
    """The operator of the user's that gives a result of a call, by itself or inside of a `cond`, a loop, a region."""
    if (called := operator_of(call)) is None:
        inner = (node for body in bodies_of(call) for node in body.graph.nodes if node.op == "call_function")
        return next((keeper for node in inner if (keeper := _keeper(node, 0)) is not None), None)
    target, _ = called
    if not _is_of_the_user(target):
        return None
    # after its results come copies of what it writes
    is_copy = (
        target is not call.target and isinstance(place, int) and place >= max(1, len(target._schema.returns))
    )
    return None if is_copy else target


def _reads_absolute_offset(ask: _Question) -> Node | None:
    """The node that addresses the value by the offset in its storage, and would read something else at home."""
    is_same_place = ask.facts.region(ask.home).same(ask.facts.region(ask.value))
    for storage in _with_copies(ask, keeps_gaps):
        for member in ask.facts.members(storage):
            for user in member.users:
                if isinstance(user.target, HigherOrderOperator) and addresses_storage(user):
                    return user
                if user.target not in _BY_OFFSET or user.args[0] is not member:
                    continue
                if not (is_same_place and _reads_within(ask, user, member)):
                    return user
    return None


def _with_copies(ask: _Question, copies_it: Callable[[Any], bool]) -> Iterator[int | None]:
    """The storage of the value, and those of what certain operators copy it to, such as it lies."""
    waiting = [ask.facts.storage(ask.value)]
    seen = set[int | None]()  # an operator in place copies a value to where it is
    for storage in waiting:
        if storage in seen:
            continue
        seen.add(storage)
        yield storage
        for member in ask.facts.members(storage):
            copies = (u for u in member.users if copies_it(u.target) and u.args and u.args[0] is member)
            waiting.extend(ask.facts.storage(copy) for copy in copies)


def _reads_within(ask: _Question, user: Node, member: Node) -> bool:
    """Whether what `user` names by offset are elements of the value: the storage of a scatter holds more."""
    own = ask.facts.region(ask.value)
    given = view_arguments(user) if user.target in SCATTERS else (user.args[1:], user.kwargs)
    args, kwargs = map_arg(given, lambda n: n.meta["val"])
    with ask.facts.values.active():
        named = Region.of(aten.as_strided.default(ask.facts.value(member), *args, **kwargs))
    return is_dense(own) and surely_within(named, own)


def _input(ask: _Question) -> Refusal | None:
    """Memory of the caller is written only when the program replaces all of it anyway."""
    owner = ask.facts.input_of(ask.home_storage)
    if owner is None or not (ask.rewrites or _writes_value(ask)):
        return None
    if ask.full_overwrite is None and ask.absorbing is None:
        return _input_refusal(ask, owner)
    if not ask.into_inputs:
        return ask.no(f"it is the memory of the input '{owner.name}'")
    return None


def _escape(ask: _Question) -> Refusal | None:
    """The caller receives no memory that is also an input's or another result's, nor that begins elsewhere in it."""
    facts = ask.facts
    own, *copies = (_returned(facts, storage) for storage in _with_copies(ask, keeps_gaps))
    owner = facts.input_of(ask.home_storage)
    if own is not None and owner is not None:
        return ask.no(f"the result is returned and would alias the input '{owner.name}'", own)
    if own is not None and _returned(facts, ask.home_storage) is not None:
        return ask.no("the result is returned next to another value in that memory", own)
    escape = own or next(filter(None, copies), None)
    if escape is None or _is_memory_of_its_own(ask):
        return _seen_layout(ask)
    if own is None:
        return ask.no("a copy of the result is returned with what would lie round it", escape)
    return ask.no("the result is returned and would lie inside a larger memory", escape)


def _seen_layout(ask: _Question) -> Refusal | None:
    """On an NPU the caller would see that the value took the strides that it found at home."""
    traced = ask.facts.tensor(ask.home)
    assert traced is not None  # refused before
    if traced.device.type != "npu" or not ask.rewrites or lies_like_operand_on_npu(ask.node.target):
        return None
    home = DeviceLayouts().of(ask.home)
    if home is not None and is_contiguous_or_false(home):
        return None
    storages = _with_copies(ask, lies_like_operand_on_npu)
    escape = next(filter(None, (_returned(ask.facts, storage) for storage in storages)), None)
    if escape is None:
        return None
    return ask.no("the result is returned, and torch_npu would lay it out densely", escape)


def _returned(facts: Facts, storage: int | None) -> Node | None:
    """The output, where the caller gets a value that lies in this storage."""
    return next((t.node for t in facts.touches(storage) if t.node.op == "output"), None)


def _is_memory_of_its_own(ask: _Question) -> bool:
    """Whether a caller finds the value at home as he would find it in fresh memory: same offset, no bytes more.

    An input may begin elsewhere in its storage in each call, and with it a scatter into the input.
    """
    home, value = ask.facts.tensor(ask.home), ask.facts.tensor(ask.value)
    assert home is not None  # refused before
    assert value is not None
    copied = (surroundings_of(ask.value), surroundings_of(ask.home))
    if ask.facts.input_of(ask.home_storage) is not None or any(
        one and one.op == "placeholder" for one in copied
    ):
        return False
    sizes = tuple((tensor.storage_offset(), tensor.untyped_storage().nbytes()) for tensor in (home, value))
    return same_extents(*sizes)


def _input_refusal(ask: _Question, owner: Node) -> Refusal:
    writes = [t for t in ask.facts.touches(ask.home_storage) if t.writes]
    if not writes:
        return ask.no(f"it is the memory of the input '{owner.name}', which must not change")
    return _old_value(ask) or ask.no(
        f"it is the memory of the input '{owner.name}', which is not written back in full", writes[-1].node
    )


def _old_value(ask: _Question) -> Refusal | None:
    """Nothing may read what the node overwrites."""
    if not ask.rewrites or not ask.later_at_home or ask.full_overwrite is not None:
        return None
    first = ask.later_at_home[0]
    if ask.facts.ordering.concurrent(first.node, ask.node):
        return ask.no("the old value is used on another stream at the same time", first.node)
    if first.node.op == "output":
        return ask.no("the old value is returned", first.node)
    return ask.no("the old value is read later" if first.reads else "it is written later", first.node)


def _later_writes(ask: _Question) -> Refusal | None:
    """No later write to one of the two may reach the other while it is wanted."""
    absorbing = ask.absorbing
    for write in ask.later_at_home:
        if not write.writes or write is absorbing:
            continue
        for touch in ask.of_value:
            if not ask.before(touch, write):
                return ask.no("its memory is written while the result is still needed", write.node)
    if absorbing is not None:
        for touch in (*ask.later_at_home, *ask.of_value):
            if touch.writes and touch.node is not absorbing.node and not ask.before(touch, absorbing):
                return ask.no("it is written again after the copy back", touch.node)
    if ask.rewrites:
        return None
    return _writes_to_copy(ask)


def _writes_to_copy(ask: _Question) -> Refusal | None:
    absorbing = ask.absorbing
    for write in ask.of_value:
        if not write.writes:
            continue
        for touch in ask.later_at_home:
            if not touch.reads or touch is absorbing or ask.before(touch, write):
                continue
            if absorbing is None or not ask.before(absorbing, touch):
                return ask.no("the original is read after the copy was written", touch.node)
    return None


def share(facts: Facts, node: Node, home: Node, value: Node, **how: bool) -> Refusal | None:
    """Moves a value and its views into its home where `may_share` allows it; the reason where it does not.

    The copies that have become idle go.
    """
    answer = may_share(facts, node, home, value, **how)
    if isinstance(answer, Refusal):
        return answer
    facts.relocate(value, facts.value(home))
    for copy in answer.absorbed:
        destination = copy.args[0]
        if isinstance(destination, Node):
            facts.replace_uses(copy, destination)
        facts.erase(copy)
    return None
