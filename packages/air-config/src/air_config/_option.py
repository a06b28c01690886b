"""The parts a tree is made of: options, groups of options, and the row that describes each option.

A group is an attrs class whose fields are options. Assignment is checked by the option's kind and remembered
as asked for; reading a name that does not exist, or assigning it, raises with the nearest name.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeVar, cast, get_type_hints

import attrs

from air_config import errors
from air_config._areas import Area
from air_config._kinds import Kind, kind_of

__all__ = ["Group", "Option", "Status", "group", "nearest", "option", "subgroup"]

T = TypeVar("T")
G = TypeVar("G", bound="Group")
Status = Literal["stable", "beta", "experimental"]
_ROW: Final = "air_config.option"


@attrs.frozen(eq=False)
class Option:
    """What is known about one option; `path` and `name` are filled in by the group that holds it."""

    kind: Kind[Any]
    default: Any
    text: str
    area: Area
    status: Status
    needs: str
    """Path of the option that switches this one on, or empty."""
    inert: Any
    """The value with which the option does nothing, given to it when it is ignored."""
    path: str = ""
    name: str = ""

    @property
    def environment_name(self) -> str:
        """The variable that sets it: the path in capitals after `AIR_`; the group `air` is left out."""
        words = [word.strip("_") for word in self.path.removeprefix("air.").split(".")]
        return "AIR_" + "_".join(words).upper()


def option(default: T, text: str, kind: Kind[Any] | None = None, **facts: Any) -> T:
    """Declare an option in a group: its default, its help, and its kind where the annotation does not say it all.

    `facts` are fields of `Option` in which it differs from the rest of its group (`area`, `status`, `needs`), and
    `inert` where that is not the default.
    """
    row = {"default": default, "text": text, "kind": kind, "inert": default, **facts}
    declared: T = attrs.field(default=default, metadata={_ROW: row}, on_setattr=attrs.setters.NO_OP)
    return declared


def subgroup(kind: type[G]) -> G:
    """Declare a group inside a group."""
    declared: G = attrs.field(factory=kind, on_setattr=attrs.setters.NO_OP)
    return declared


def nearest(name: str, known: Iterable[str], *, likeness: float = 0.6) -> str | None:
    """The known name most like `name`, case and leading underscores aside; none where all are less like it.

    With a mapping, what the name stands for.
    """
    stands_for = known if isinstance(known, Mapping) else {each: each for each in known}
    names = {each.lower().lstrip("_"): found for each, found in stands_for.items()}
    matches = difflib.get_close_matches(name.lower().lstrip("_"), names, n=1, cutoff=likeness)
    return names[matches[0]] if matches else None


class Group:
    """Base of every group. `_asked` holds the names assigned since the group was made."""

    __slots__ = ("_asked", "_frozen")

    _PATH: ClassVar[str] = ""
    _OPTIONS: ClassVar[dict[str, Option]] = {}
    _GROUPS: ClassVar[tuple[str, ...]] = ()
    _NAMES: ClassVar[tuple[str, ...]] = ()
    """Names beside those of the options, under which some of them can be assigned."""
    _EXTRA: ClassVar[tuple[str, ...]] = ()
    """Slots beside the options that copies and pickles carry along."""
    _TREE: ClassVar[tuple[str, ...]] = ()
    """Every path of the whole tree: a mistyped name may belong to another group."""
    _asked: set[str]
    _frozen: bool

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_asked", set())
        object.__setattr__(self, "_frozen", False)

    @classmethod
    def _path_of(cls, name: str) -> str:
        return f"{cls._PATH}.{name}" if cls._PATH else name

    @classmethod
    def _unknown(cls, name: str) -> errors.UnknownOption:
        known = [*cls._NAMES, *cls._OPTIONS, *cls._GROUPS]
        close = nearest(name, known)
        elsewhere = {path.rpartition(".")[2]: path for path in Group._TREE}
        # another group has the name, or almost; else the option of this place that the whole path is most like
        far = None if close else nearest(name, elsewhere, likeness=0.8)
        meant = cls._path_of(close) if close else far or nearest(cls._path_of(name), Group._TREE)
        return errors.UnknownOption(cls._path_of(name), nearest=meant, known=known)

    if not TYPE_CHECKING:  # a checker that saw these would allow every name

        def __setattr__(self, name: str, value: Any) -> None:
            self._take(name, value)

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__") or name in Group.__slots__:
                raise AttributeError(name)
            raise type(self)._unknown(name)

    def _take(self, name: str, value: Any) -> None:
        """Check an assignment, and remember that it was asked for."""
        cls = type(self)
        if not hasattr(self, "_asked"):
            object.__setattr__(self, name, value)
            return
        if self._frozen:
            raise errors.FrozenSettings(cls._path_of(name))
        if name in cls._GROUPS:
            inner = getattr(self, name)
            raise errors.NotAGroup(cls._path_of(name), value, [*inner._OPTIONS, *inner._GROUPS])
        row = cls._OPTIONS.get(name)
        if row is None:
            raise cls._unknown(name)
        object.__setattr__(self, name, row.kind.take(row.path, value))
        self._asked.add(name)

    def __delattr__(self, name: str) -> None:
        """Take an assignment back: the option has its default again, and no longer counts as asked for."""
        if self._frozen:
            raise errors.FrozenSettings(type(self)._path_of(name))
        if name in type(self)._GROUPS:
            inner = getattr(self, name)
            raise errors.ConfigError(
                f"{type(self)._path_of(name)!r} is a group of options, and only an option can be taken back",
                advice=f"delete what is in it: {', '.join([*inner._OPTIONS, *inner._GROUPS])}",
            )
        row = type(self)._OPTIONS.get(name)
        if row is None:
            raise type(self)._unknown(name)
        object.__setattr__(self, name, row.default)
        self._asked.discard(name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Group) or type(other) is not type(self):
            return NotImplemented
        return dict(self._leaves()) == dict(other._leaves())

    def __hash__(self) -> int:
        raise TypeError(f"unhashable: {type(self).__name__} can change")

    def __repr__(self) -> str:
        changed = ", ".join(f"{row.path}={value!r}" for row, value in self._leaves() if value != row.default)
        return f"{type(self).__name__}({changed})"

    def __dir__(self) -> list[str]:
        public = [name for name in object.__dir__(self) if not name.startswith("_")]
        return sorted({*public, *self._OPTIONS, *self._GROUPS})

    def _leaves(self, *, asked: bool = False) -> Iterator[tuple[Option, Any]]:
        """Every option of this group and the groups inside it, or those that were assigned, with its value.

        In order of declaration.
        """
        for name, row in self._OPTIONS.items():
            if not asked or name in self._asked:
                yield row, getattr(self, name)
        for name in self._GROUPS:
            yield from getattr(self, name)._leaves(asked=asked)

    def _clone(self: G) -> G:
        """The same values and the same memory of what was asked for, in groups of its own, not frozen."""
        fields = {name: getattr(self, name) for name in (*self._OPTIONS, *self._EXTRA)}
        groups = {name: getattr(self, name)._clone() for name in self._GROUPS}
        return _remake(type(self), {**fields, **groups}, self._asked, False)

    def __copy__(self: G) -> G:
        """A copy never shares groups with its original; the values themselves cannot change."""
        return self._clone()

    def __deepcopy__(self: G, memo: dict[int, Any]) -> G:
        return self._clone()

    def __reduce__(self) -> tuple[Any, ...]:
        names = (*self._OPTIONS, *self._GROUPS, *self._EXTRA)
        fields = {name: getattr(self, name) for name in names}
        return _remake, (type(self), fields, sorted(self._asked), self._frozen)

    def _freeze(self) -> None:
        for name in self._GROUPS:
            getattr(self, name)._freeze()
        object.__setattr__(self, "_frozen", True)


def _remake(cls: type[G], fields: dict[str, Any], asked: Iterable[str], frozen: bool) -> G:
    """Rebuild a pickled group as it was; its values were checked when they were assigned."""
    made = cls()
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    made._asked.update(asked)
    object.__setattr__(made, "_frozen", frozen)
    return made


def group(path: str, area: Area, status: Status = "beta", *, needs: str = "") -> Callable[[type[G]], type[G]]:
    """Make a class a group of options that sits at `path` of the tree; the rest holds for each option in it.

    `needs` is the option that switches the others on; where it is one of the group, that one needs none.
    """

    def decorate(cls: type[G]) -> type[G]:
        made = attrs.define(cls, eq=False, repr=False, slots=True, weakref_slot=False)
        made._PATH, made._OPTIONS, made._GROUPS = path, {}, ()
        annotations = get_type_hints(cls)
        shared = {"area": area, "status": status, "needs": needs}
        for field in attrs.fields(cast("type[attrs.AttrsInstance]", made)):
            own = field.metadata.get(_ROW)
            if own is None:
                made._GROUPS += (field.name,)
                continue
            facts = {**shared, **own, "path": made._path_of(field.name), "name": field.name}
            facts["kind"] = kind_of(annotations[field.name], own["kind"])
            facts["needs"] = "" if facts["needs"] == facts["path"] else facts["needs"]
            made._OPTIONS[field.name] = Option(**facts)
        return made

    return decorate
