"""What a file of `cache_compile` is for: function, options, versions, and what a trace takes in beside the arguments.

Torch writes the values that a function closes over, and the hooks of modules, into a graph and compares none of them
when it is read. So they are named here; what has no name that another process would find again is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import torch
from torch import nn
from torch.nn.modules import module as everywhere

from air_backend._compilation import KEEP_MUTATIONS
from air_backend._version import __version__
from air_backend.errors import CannotSave
from air_config import CompilerConfig

DEFAULT: Final = "default "
PLAIN: Final = (bool, int, float, str, bytes, type(None))
#: Options that a traced graph depends on; the others act on it when it is compiled, and so in each process anew.
OF_THE_TRACE: Final = (KEEP_MUTATIONS,)
#: Dictionary of hooks of a module -> those that say how each is called. Calls run without gradients.
HOOKS: Final = {
    "_forward_pre_hooks": ("_forward_pre_hooks_with_kwargs",),
    "_forward_hooks": ("_forward_hooks_with_kwargs", "_forward_hooks_always_called"),
}


@dataclass(frozen=True)
class Key:
    """What a file is for: a file with another key is not read."""

    function: str
    dynamic: bool
    config: Mapping[str, Any]
    versions: Mapping[str, str]
    captured: Mapping[str, str]
    """What the function closes over, and its default arguments."""
    decompositions: Mapping[str, str]
    """Those given beside torch's, by operator."""

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        owner: object,
        config: CompilerConfig,
        dynamic: bool,
        decompositions: Mapping[Any, Callable[..., Any]],
    ) -> Key:
        """The key of a function, or of a method and what it belongs to, in this process."""
        holder = type(owner).__qualname__ + "." if owner is not None else ""
        name = f"{function.__module__}.{holder}{function.__name__}"
        options = json.loads(config.to_json(only_set=True))
        rules = {
            str(op): _named(rule, f"the decomposition of {op}", "") for op, rule in decompositions.items()
        }
        return cls(name, dynamic, options, _versions(), _captured(function), rules)

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(vars(self), sort_keys=True).encode()).hexdigest()

    @property
    def name(self) -> str:
        """The name of the folder."""
        last = ".".join(self.function.split(".")[-2:])
        return f"{last}_{'dynamic' if self.dynamic else 'static'}_{self.digest[:16]}"


def pin_options_of_the_trace(config: CompilerConfig) -> None:
    """Assigns what the environment or a patch asks of the trace, so that the key names it and each call has it."""
    for path in OF_THE_TRACE:
        if config.origin(path).asked:
            config.set(path, config.layered(path))


def _versions() -> dict[str, str]:
    found = {"air-backend": __version__, "python": platform.python_version(), "torch": torch.__version__}
    with contextlib.suppress(metadata.PackageNotFoundError):
        found["torch_npu"] = metadata.version("torch_npu")
    return found


def cells_of(func: Callable[..., Any]) -> dict[str, CellType]:
    """The variables that a function closes over. Files refer to them by name: a reader has a function of his own."""
    function = getattr(func, "__func__", func)
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def _closed_over(function: Any) -> Iterator[tuple[str, Any]]:
    yield from ((name, _content(function, name, cell)) for name, cell in cells_of(function).items())
    yield from ((f"{DEFAULT}{index}", value) for index, value in enumerate(function.__defaults__ or ()))
    yield from ((f"{DEFAULT}{name}", value) for name, value in (function.__kwdefaults__ or {}).items())


def _content(function: Any, name: str, cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a cell that nothing was put into yet
        raise CannotSave(f"{function.__name__} closes over {name!r}, which has no value yet") from None


def _captured(function: Any) -> dict[str, str]:
    found = {}
    for name, value in _closed_over(function):
        if isinstance(value, PLAIN):
            found[name] = repr(value)
        elif isinstance(value, (type, FunctionType, ModuleType)):
            found[name] = (
                f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"
            )
        elif type(value) is torch.Tensor and not name.startswith(DEFAULT):
            found[name] = "a tensor"  # read from the function in each call, and checked like an argument
        else:
            raise CannotSave(
                f"{function.__name__} holds {name!r}, a {type(value).__name__}; give it as an argument"
            )
    return found


def hooks_of(func: Callable[..., Any]) -> dict[str, list[str]]:
    """The forward hooks that a trace runs through, by their places; of this moment."""
    found: dict[str, list[str]] = {}
    for place, holder, prefix in _holders(func):
        found.update(_hooks(place, holder, prefix))
    return found


def hooks_elsewhere(modules: Mapping[str, nn.Module], func: Callable[..., Any]) -> dict[str, list[str]]:
    """For modules that `hooks_of` does not find, by the expressions of Dynamo: the hooks that each has, if any."""
    known = {id(holder) for _, holder, _ in _holders(func)}
    return {name: hooks_on(module) for name, module in modules.items() if id(module) not in known}


def hooks_on(module: nn.Module) -> list[str]:
    """The forward hooks of one module."""
    return [f"{place} {text}" for place, texts in _hooks("a module", module).items() for text in texts]


def _hooks(place: str, holder: object, prefix: str = "") -> dict[str, list[str]]:
    found = {}
    for kind, flags in HOOKS.items():
        hooks = getattr(holder, prefix + kind, {})
        if hooks:
            found[f"{place}.{kind}"] = [
                " ".join([_named(hook, place), *_set(holder, prefix, flags, number)])
                for number, hook in hooks.items()
            ]
    return found


def _holders(func: Any) -> Iterator[tuple[str, object, str]]:
    """What has hooks: the modules of the owner and of the globals that the function names, and all modules at once."""
    yield "torch.nn.Module", everywhere, "_global"
    function = getattr(func, "__func__", func)
    roots = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    for name, root in {**roots, "self": getattr(func, "__self__", None)}.items():
        if isinstance(root, nn.Module):
            for path, module in root.named_modules():
                yield f"{name}.{path}" if path else name, module, ""


def _set(holder: object, prefix: str, flags: tuple[str, ...], number: int) -> list[str]:
    return [flag for flag in flags if number in getattr(holder, prefix + flag, {})]


def _named(hook: Any, place: str, what: str = "has a forward hook that ") -> str:
    """A hook or decomposition by its code and by what it holds: two that are named alike do the same."""
    if isinstance(hook, MethodType) and isinstance(hook.__self__, nn.Module):
        hook = hook.__func__
    if isinstance(hook, FunctionType):
        code = hashlib.sha256(repr(code_of(hook.__code__)).encode()).hexdigest()[:16]
        return f"{hook.__module__}.{hook.__qualname__} {code} {json.dumps(_captured(hook), sort_keys=True)}"
    held = getattr(hook, "__dict__", None)
    if isinstance(held, dict) and held and all(isinstance(value, PLAIN) for value in held.values()):
        return f"{type(hook).__module__}.{type(hook).__qualname__} {sorted(held.items())!r}"
    raise CannotSave(f"{place} {what}has no name in a file, a {type(hook).__name__}")


def code_of(code: CodeType) -> tuple[object, ...]:
    """What a function does, without the lines it stands in."""
    constants = [
        code_of(value) if isinstance(value, CodeType) else _constant(value) for value in code.co_consts
    ]
    return code.co_code, code.co_names, code.co_varnames, constants


def _constant(value: object) -> str:
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)
