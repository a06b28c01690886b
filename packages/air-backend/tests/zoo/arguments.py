"""What a model is called with, by the names of its parameters and the sizes that its configuration says."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch

from zoo.made import Inputs
from zoo.shrinking import VOCABULARY, find, numbers, parts

ROWS: Final = 2
LENGTH: Final = 8
FRAMES: Final = 4
GRID: Final = 4
"""Patches of a picture, in both directions."""
SOUND: Final = 4000
SPECTRUM: Final = (64, 96, 128, 512, 1024, 3000)
"""How many steps of time a spectrum has; models ask for very different numbers, the least that runs is taken."""

Draw = Callable[[], Any]


def calls(forward: Callable[..., Any], config: Any, main: str) -> Iterator[Inputs]:
    """Ways to call a model, the likeliest first."""
    parameters = inspect.signature(forward).parameters
    known = {name: list(ways(name, config)) for name in parameters}
    required = [
        n for n, p in parameters.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    optional = [
        name
        for name in ("input_ids", "decoder_input_ids", "attention_mask", "pixel_values")
        if name in parameters
    ]
    tried: set[tuple[str, ...]] = set()
    for wanted in (
        [main, *required, "decoder_input_ids"],
        ["input_ids", *required],
        [main, "input_ids", *required, "decoder_input_ids"],
        [main, "input_ids", "attention_mask", *required, "decoder_input_ids"],
        [*optional, *required],
        [name for name, p in parameters.items() if known[name]],
    ):
        names = tuple(dict.fromkeys(name for name in wanted if name in parameters))
        if not names or names in tried or not all(known[name] for name in names):
            continue
        tried.add(names)
        for drawn in itertools.islice(itertools.product(*(known[name] for name in names)), 16):
            yield _call(names, drawn, "use_cache" in parameters)


def _call(names: Sequence[str], drawn: Sequence[Draw], caches: bool) -> Inputs:
    def inputs() -> dict[str, Any]:
        made = {name: draw() for name, draw in zip(names, drawn, strict=True)}
        return {**made, "use_cache": False} if caches else made

    return inputs


def ways(name: str, config: Any) -> Iterator[Draw]:
    """What an argument of such a name may be."""
    for words, made in _BY_NAME:
        if name in words:
            yield from made(config)
            return


def special(config: Any) -> set[int]:
    """Ids of words that a configuration gives a meaning."""
    named = (
        value
        for part in parts(config)
        for name, value in numbers(part).items()
        if "token" in name or name.endswith("_id")
    )
    return {value for value in named if isinstance(value, int)}


def _words(config: Any) -> Iterator[Draw]:
    sizes = [
        value
        for part in parts(config)
        for key, value in numbers(part).items()
        if key == "vocab_size" and isinstance(value, int)
    ]
    usable = [i for i in range(min([VOCABULARY, *sizes])) if i not in special(config)] or [0]
    yield lambda: torch.tensor(usable)[torch.randint(len(usable), (ROWS, LENGTH))]


def _size(config: Any) -> tuple[int, int]:
    size = find(config, "image_size", "input_size", "img_size", "crop_size")
    if isinstance(size, dict):
        size = (size.get("height", 64), size.get("width", 64))
    if isinstance(size, (list, tuple)):
        return (int(size[0]), int(size[-1]))
    return (size, size) if isinstance(size, int) and size > 1 else (64, 64)


def _pictures(config: Any) -> Iterator[Draw]:
    channels = find(config, "num_channels", "in_channels", "in_chans", "input_channels")
    channels = channels if isinstance(channels, int) else 3
    high, wide = _size(config)
    frames = find(config, "num_frames")
    if isinstance(frames, int):
        yield lambda: torch.randn(ROWS, frames, channels, high, wide)
    yield lambda: torch.randn(ROWS, channels, high, wide)
    if (high, wide) != (64, 64):
        yield lambda: torch.randn(ROWS, channels, 64, 64)
    yield lambda: torch.randn(ROWS, channels, 224, 224)
    yield lambda: torch.randn(ROWS, FRAMES, channels, high, wide)


def _spectrum(config: Any) -> Iterator[Draw]:
    bins = (
        find(
            config, "num_mel_bins", "feature_size", "input_feat_per_channel", "n_mels", "input_dim", "mel_dim"
        )
        or 80
    )
    positions = find(config, "max_source_positions")
    times = [2 * positions] if isinstance(positions, int) else []
    for time in (*times, *SPECTRUM):
        yield lambda time=time: torch.randn(ROWS, bins, time)  # type: ignore[misc]
        yield lambda time=time: torch.randn(ROWS, time, bins)  # type: ignore[misc]
    yield lambda: torch.randn(ROWS, 1, 1024, bins)


def _sound(config: Any) -> Iterator[Draw]:
    yield lambda: torch.randn(ROWS, SOUND)
    yield lambda: torch.randn(ROWS, 1, SOUND)
    yield lambda: torch.randn(ROWS, 2, SOUND)
    yield lambda: torch.randn(ROWS, 1024, find(config, "num_mel_bins") or 128)
    yield lambda: torch.randn(ROWS, 16000)


def _ones(*shape: int) -> Callable[[Any], Iterator[Draw]]:
    def ways(config: Any) -> Iterator[Draw]:
        yield lambda: torch.ones(shape, dtype=torch.long)

    return ways


def _boxes(config: Any) -> Iterator[Draw]:
    corners = torch.tensor([0, 0, 1, 1])
    yield (
        lambda: (
            torch.randint(0, 16, (ROWS, LENGTH, 4)) * 0 + corners * torch.randint(1, 16, (ROWS, LENGTH, 1))
        )
    )


def _noise(*names: str, at_least: int = 1) -> Callable[[Any], Iterator[Draw]]:
    """Vectors as wide as the configuration says under one of the names."""

    def ways(config: Any) -> Iterator[Draw]:
        width = find(config, *names)
        if isinstance(width, int):
            yield lambda: torch.randn(ROWS, LENGTH, width)
            yield lambda: torch.randn(ROWS, width)

    return ways


def _states(config: Any) -> Iterator[Draw]:
    """Patches of pictures of unequal size lie one after another, each with all its numbers."""
    patch, frames = find(config, "patch_size"), find(config, "temporal_patch_size")
    if find(config, "spatial_merge_size") and isinstance(patch, int):
        numbers_of_patch = (find(config, "in_channels", "in_chans", "num_channels") or 3) * patch * patch
        for width in ((numbers_of_patch * frames,) if frames else ()) + (numbers_of_patch,):
            yield lambda width=width: torch.randn(GRID**2, width)  # type: ignore[misc]
    yield from _noise("hidden_size", "d_model")(config)


def _grids(config: Any) -> Iterator[Draw]:
    yield lambda: torch.tensor([[1, GRID, GRID]])
    yield lambda: torch.tensor([[GRID, GRID]])


def _series(config: Any) -> Iterator[Draw]:
    length = find(config, "context_length", "seq_length") or 32
    channels = find(config, "num_input_channels", "input_size") or 1
    lags = max(find(config, "lags_sequence") or [0])
    yield lambda: torch.randn(ROWS, length + lags, channels)
    yield lambda: torch.randn(ROWS, length + lags)


_BY_NAME: Final = (
    (("input_ids", "decoder_input_ids", "text_input_ids", "token_ids"), _words),
    (("attention_mask", "decoder_attention_mask"), _ones(ROWS, LENGTH)),
    (("pixel_values", "pixel_values_videos", "image", "images", "pixel_values_image"), _pictures),
    (("input_features", "spectrogram", "audio_features"), _spectrum),
    (("input_values", "input_audio", "audio_values"), _sound),
    (("bbox",), _boxes),
    (("past_values", "past_time_features", "future_values"), _series),
    (("hidden_states",), _states),
    (("grid_thw", "image_grid_thw", "grid_hws", "grid_hw", "spatial_shapes"), _grids),
    (("inputs_embeds", "encoder_hidden_states"), _noise("hidden_size", "d_model")),
)
