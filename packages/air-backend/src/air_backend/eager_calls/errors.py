"""Every warning that calls run eagerly, and the errors that stand in their place where one is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from air_config.errors import AirError

if TYPE_CHECKING:
    from air_backend.errors import BackwardRefused, SharingRefused
    from air_graph import SourceLine  # with torch, which `air --help` does without


_OUTSIDE: Final = "call backward() outside of torch.autocast"
_INSIDE: Final = "compile a function that asks for the gradient itself (torch.func.grad)"


class RunsEagerly(UserWarning):
    """Some calls of a compiled function run eagerly; the message says which, why and where.

    Do what the message says; the results are those of eager either way.
    """

    def __init__(self, what: str, place: SourceLine | None, advice: str = "", label: str = "at") -> None:
        self.place = place
        lines = ((label, str(place or "")), ("advice", advice))
        self.text = "\n".join([what, *(f"  {name:<7} {text}" for name, text in lines if text)])

    def __str__(self) -> str:
        return self.text


class SharedOtherwise(RunsEagerly):
    """Calls of a function that writes to an argument run eagerly, for the way in which arguments lie in memory.

    Pass a copy of what is only read (`.clone()`).
    """

    def __init__(self, refused: SharingRefused) -> None:
        self.arguments = refused.arguments
        written = f"the function writes to one of {', '.join(refused.arguments)}: {refused.reason}"
        super().__init__(f"such calls run eagerly: {written}", refused.where, refused.advice)


class NotTraced(RunsEagerly):
    """A graph runs eagerly, since torch cannot make it functional, as compilers need it.

    Do what the message advises for this error, which is torch's: every compiler behind AOTAutograd has it.
    `config.air.uncapturable = "error"` (in max-autotune `config.air.unsupported`) raises it.
    """

    def __init__(
        self, reason: str, place: SourceLine | None, advice: str = "", *, is_start: bool = False
    ) -> None:
        super().__init__(
            f"this graph runs eagerly: torch cannot trace it for a compiler: {reason}",
            place,
            advice,
            "begins" if is_start else "at",  # where torch says of no operator that it is the one
        )


class BackwardLost(RunsEagerly):
    """A graph runs eagerly, since what torch compiles would lose the backward of a `torch.autograd.Function`.

    Let the function give a tensor of its own (`.clone()`): then the graph is compiled.
    """

    def __init__(self, refused: BackwardRefused) -> None:
        super().__init__(f"this graph runs eagerly: {refused.what}", refused.where, refused.advice)


class TangentsLost(RunsEagerly):
    """Calls inside a level of forward-mode AD run eagerly: a compiled graph computes no tangents.

    Nothing has to be done; the function that was compiled gives the same without this warning.
    """

    def __init__(self, place: SourceLine | None) -> None:
        what = "calls inside a level of forward-mode AD run eagerly: a compiled graph computes no tangents"
        super().__init__(what, place, label="begins")


@dataclass(eq=False)
class TangentsRefused(AirError, RuntimeError):
    """A compiled function was called inside a level of forward-mode AD, and a graph computes no tangents.

    Call the function that was compiled, or do without `config.air.uncapturable = "error"` (in max-autotune
    `config.air.unsupported`): then such a call runs eagerly.
    """

    where: SourceLine | None = None
    what = "a compiled graph computes no tangents, and the call is inside a level of forward-mode AD"
    advice = "call the function that was compiled"


class GradientsBatched(RunsEagerly):
    """Backward calls for many gradients at once (`is_grads_batched=True`, `jacobian(vectorize=True)`) run eagerly.

    Nothing has to be done; the gradients are those of eager. One gradient after another is computed by the graph.
    """

    def __init__(self, place: SourceLine | None) -> None:
        what = "backward calls for many gradients at once run eagerly: a compiled graph computes one"
        super().__init__(what, place, label="begins")


@dataclass(eq=False)
class GradientsRefused(AirError, RuntimeError):
    """Many gradients at once were asked of a compiled function, and a graph computes one.

    Ask for one after another, or do without `config.air.uncapturable = "error"` (in max-autotune
    `config.air.unsupported`): then such a call runs eagerly.
    """

    where: SourceLine | None = None
    what = "a compiled graph computes one gradient, and many were asked for at once"
    advice = "ask for one after another (without is_grads_batched or vectorize)"


class GradientsCast(RunsEagerly):
    """Backward calls inside autocast run eagerly where the forward ran outside: the graph was made without its casts.

    Call `backward()` outside of `torch.autocast`, as torch advises; or the compiled function inside, too.
    """

    def __init__(self, place: SourceLine | None) -> None:
        what = (
            "backward calls inside autocast run eagerly: the forward ran outside, and the graph has no casts"
        )
        super().__init__(what, place, _OUTSIDE, "begins")


@dataclass(eq=False)
class CastRefused(AirError, RuntimeError):
    """A backward was called inside autocast and its forward outside, and the graph was made without casts.

    Call `backward()` outside of `torch.autocast`, or do without `config.air.uncapturable = "error"` (in max-autotune
    `config.air.unsupported`): then such a call runs eagerly.
    """

    where: SourceLine | None = None
    what = "a backward was called inside autocast and its forward outside, and the graph has no casts"
    advice = _OUTSIDE


class GradientsOfGradients(RunsEagerly):
    """A gradient that is to be differentiated (`create_graph=True`) is computed eagerly, from the forward run again.

    Nothing has to be done; the gradients are those of eager. They are compiled where the compiled function itself asks
    for them: `torch.func.grad`, or `torch.autograd.grad` with `torch._dynamo.config.trace_autograd_ops = True`.
    """

    def __init__(self, place: SourceLine | None) -> None:
        what = "gradients to be differentiated are computed eagerly: what torch compiles has no second derivative"
        super().__init__(what, place, _INSIDE, "begins")


@dataclass(eq=False)
class SecondDerivativeRefused(AirError, RuntimeError):
    """A gradient of a compiled function is differentiated, and the forward cannot run again for that.

    Compile a function that asks for the gradient itself, by `torch.func.grad`; or leave the function uncompiled
    (`torch.compiler.disable`) where a gradient of its gradient is needed.
    """

    reason: str = ""
    where: SourceLine | None = None
    what = "a gradient of a compiled function is differentiated, and its forward cannot run again: {reason}"
    advice = f"{_INSIDE}, or leave it uncompiled there (torch.compiler.disable)"
