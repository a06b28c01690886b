"""Tiny models of diffusers: every class of model, its arguments shrunk as configurations are, inputs by their names."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

import diffusers
import torch
from diffusers import ModelMixin
from torch import Tensor

from zoo.made import Inputs, Made, NotMade, made
from zoo.npu_calls import give_the_cpu_what_diffusers_calls
from zoo.shrinking import LADDER, Step, smaller

ROWS, SIDE, LENGTH, TOKENS, FRAMES = 2, 16, 8, 16, 4
WAYS_AT_MOST: Final = 24

Draw = Callable[[], Any]


def names() -> list[str]:
    found = (
        getattr(diffusers, name)
        for name in dir(diffusers)
        if name.endswith(("Model", "2D", "3D", "KL", "VAE")) or "Autoencoder" in name
    )
    return sorted(
        each.__name__
        for each in found
        if isinstance(each, type) and issubclass(each, ModelMixin) and each is not ModelMixin
    )


def make(name: str) -> Made:
    give_the_cpu_what_diffusers_calls()
    faults: list[str] = []
    for step in LADDER[: len(LADDER) // 2]:
        try:
            return _made(getattr(diffusers, name), step)
        except Exception as error:  # the next step may do
            faults.append(f"{type(error).__name__}: {error}")
    raise NotMade(" | ".join(faults))


def _made(model_class: Any, step: Step) -> Made:
    whole = {
        name: p.default for name, p in inspect.signature(model_class.__init__).parameters.items()
        if name != "self" and p.default is not p.empty
    }  # fmt: skip
    given = {name: smaller(name, value, step, whole) for name, value in whole.items()}
    return made(lambda: model_class(**given), lambda model: _calls(model.forward, given), step.told)


def _calls(forward: Callable[..., Any], given: Mapping[str, Any]) -> Iterator[Inputs]:
    """Every parameter without a default, and those that have a kind of state in their name."""
    parameters = inspect.signature(forward).parameters
    required = [
        n for n, p in parameters.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    optional = [
        n
        for n in ("encoder_hidden_states", "timestep", "img_ids", "txt_ids", "pooled_projections")
        if n in parameters
    ]
    for names in (required, list(dict.fromkeys([*required, *optional]))):
        ways = [list(_ways(name, SimpleNamespace(**given))) for name in names]
        for drawn in itertools.islice(itertools.product(*ways), WAYS_AT_MOST):
            yield lambda names=names, drawn=drawn: {n: d() for n, d in zip(names, drawn, strict=True)}  # type: ignore[misc]


def _first(given: SimpleNamespace, *names: str) -> Any:
    return next((value for name in names if (value := getattr(given, name, None)) is not None), None)


def _ways(name: str, given: SimpleNamespace) -> Iterator[Draw]:
    """What an argument of such a name may be."""
    channels = (
        _first(given, "in_channels", "in_chans", "num_channels", "audio_channels", "latent_channels") or 4
    )
    side = _first(given, "sample_size", "image_size")
    side = side if isinstance(side, int) and 8 <= side <= 64 else SIDE
    wide = _first(given, *_WIDTHS_OF_TEXT)
    wide = wide[0] if isinstance(wide, (tuple, list)) else wide or 32
    pooled = _first(given, "pooled_projection_dim", "projection_dim") or wide
    for pattern, shapes in _SHAPES:
        if pattern.search(name):
            for shape in shapes(channels, side, wide, pooled):
                yield lambda shape=shape, name=name: _drawn(name, shape)  # type: ignore[misc]
            return


def _drawn(name: str, shape: Sequence[int]) -> Tensor:
    if "mask" in name:
        return torch.ones(shape, dtype=torch.bool)
    if name.endswith("_ids"):
        return torch.zeros(shape)
    return torch.rand(shape) if "time" in name or name == "guidance" else torch.randn(shape)


_WIDTHS_OF_TEXT: Final = (
    "cross_attention_dim", "joint_attention_dim", "caption_channels", "text_dim", "text_embed_dim", "encoder_hid_dim",
    "embedding_dim",
)  # fmt: skip
_SHAPES: Final = tuple(
    (re.compile(pattern), shapes)
    for pattern, shapes in (
        ("^(sample|hidden_states|x|latent|z)$", lambda channels, side, wide, pooled: (
            (ROWS, channels, side, side), (ROWS, channels, FRAMES + 1, side, side), (ROWS, TOKENS, channels),
            (ROWS, channels, 1024),
        )),
        ("^timesteps?$|^guidance$", lambda channels, side, wide, pooled: ((ROWS,),)),
        ("pooled", lambda channels, side, wide, pooled: ((ROWS, pooled),)),
        ("mask", lambda channels, side, wide, pooled: ((ROWS, LENGTH),)),
        ("^img_ids$", lambda channels, side, wide, pooled: ((TOKENS, 3),)),
        ("^txt_ids$", lambda channels, side, wide, pooled: ((LENGTH, 3),)),
        ("states$|embeds$|context$", lambda channels, side, wide, pooled: ((ROWS, LENGTH, wide),)),
        ("cond", lambda channels, side, wide, pooled: ((ROWS, 3, side * 8, side * 8),)),
    )
)  # fmt: skip
