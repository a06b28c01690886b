"""Random uses of `generate` of transformers: a tiny model, the way it is compiled, and requests one after another."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

import torch
import transformers
from torch import Tensor
from transformers.models.auto import modeling_auto

from air_backend.doctor._checks import COMPILE_EVERYWHERE
from zoo.hugging_face import small
from zoo.shrinking import LADDER

SPEAKING: Final = (
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
)
PARAMETERS_AT_MOST: Final = 20_000_000
WORDS: Final = 30
"""The prompts are of so many words, which every model knows."""

SEARCHES: Final[dict[str, dict[str, Any]]] = {
    "greedy": {"do_sample": False},
    "drawn": {"do_sample": True},
    "drawn of five": {"do_sample": True, "top_k": 5, "top_p": 0.9, "temperature": 0.7},
    "beams": {"do_sample": False, "num_beams": 2},
    "drawn beams": {"do_sample": True, "num_beams": 2},
    "looked up": {"do_sample": False, "prompt_lookup_num_tokens": 2},
    "assisted": {"do_sample": False},
}
ALONE: Final = ("looked up", "assisted")
"""Searches that take one prompt."""

CACHES: Final = ("static", "static", "hybrid", "sliding_window", "offloaded_static", "dynamic", None)


class NoSpeaker(Exception):
    """No tiny model of this kind generates."""


def kinds() -> list[str]:
    """The kinds of models that generate text from text."""
    return sorted({name for mapping in SPEAKING for name in getattr(modeling_auto, mapping)})


def class_of(name: str) -> Any:
    listed = next(
        getattr(modeling_auto, each)[name] for each in SPEAKING if name in getattr(modeling_auto, each)
    )
    return getattr(transformers, listed if isinstance(listed, str) else listed[0])


def speaker(name: str, device: str) -> Any:
    """The smallest model of a kind that generates, with weights that tell one token from another."""
    model_class = class_of(name)
    for step in LADDER:
        try:
            return _speaker(model_class, name, step, device)
        except Exception:  # the next step may do
            continue
    raise NoSpeaker(name)


def _speaker(model_class: Any, name: str, step: Any, device: str) -> Any:
    config = small(name, step)
    parts: list[Any] = [config, getattr(config, "text_config", None), getattr(config, "decoder", None)]
    for part in parts:
        if hasattr(part, "use_cache"):
            part.use_cache = True
    with torch.device("meta"):
        if sum(one.numel() for one in model_class(config).parameters()) > PARAMETERS_AT_MOST:
            raise NoSpeaker(name)
    torch.manual_seed(0)
    model = model_class(config).to(device).eval()
    with torch.no_grad():
        for one in model.parameters():
            if one.dim() > 1 and one.is_floating_point():
                one.mul_(3.0)
    told = model.generation_config
    told.eos_token_id, told.pad_token_id, told.bos_token_id = None, 0, 1
    if model.config.is_encoder_decoder:
        told.decoder_start_token_id = 0
    model.generate(prompts(model, 1, 3), max_new_tokens=2, do_sample=False)
    return model


def prompts(model: Any, rows: int, length: int) -> Tensor:
    words = min(WORDS, model.config.get_text_config().vocab_size)
    return torch.randint(2, words, (rows, length)).to(model.device)


@dataclass(frozen=True)
class Request:
    """One call of `generate`."""

    search: str
    more: tuple[tuple[str, Any], ...]
    rows: int
    length: int
    is_padded: bool

    @staticmethod
    def drawn(chance: random.Random) -> Request:
        search = chance.choice(sorted(SEARCHES))
        rows = 1 if search in ALONE else chance.choice((1, 2, 2, 3))
        more: dict[str, Any] = {"max_new_tokens": chance.choice((3, 6))}
        for name, value in (
            ("repetition_penalty", 1.3),
            ("no_repeat_ngram_size", 2),
            ("output_logits", True),
        ):
            if chance.random() < 0.2:
                more[name] = value
        if search in ("drawn", "drawn beams", "beams") and chance.random() < 0.3:
            more["num_return_sequences"] = 2
        return Request(
            search, tuple(more.items()), rows, chance.choice((3, 5, 5, 9)), chance.random() < 0.3 and rows > 1
        )

    def made(self, model: Any, call: Any, seed: int, **told: Any) -> list[Tensor]:
        """The tokens, then the scores of each step."""
        torch.manual_seed(seed)
        ids = prompts(model, self.rows, self.length)
        if self.is_padded:
            mask = torch.ones_like(ids)
            mask[0, :2] = 0
            ids, told["attention_mask"] = ids * mask, mask
        if self.search == "assisted":
            told["assistant_model"] = model
        torch.manual_seed(77)
        found = call.generate(
            ids,
            return_dict_in_generate=True,
            output_scores=True,
            **SEARCHES[self.search],
            **dict(self.more),
            **told,
        )
        steps = [*(found.scores or ()), *(getattr(found, "logits", None) or ())]
        return [one.cpu() for one in (found.sequences, *steps)]


@dataclass(frozen=True)
class Use:
    """A model that is compiled in one of the ways that people compile it, and its requests."""

    seed: int
    name: str
    way: str
    """By the "config" of `generate`, its "forward", or as a "model"."""

    cache: str | None
    requests: tuple[Request, ...]

    @staticmethod
    def drawn(seed: int) -> Use:
        chance = random.Random(seed)
        way = chance.choice(("config", "config", "forward", "model"))
        cache = chance.choice(CACHES) if way == "config" else chance.choice(("static", "dynamic", None))
        requests = tuple(Request.drawn(chance) for _ in range(chance.randint(2, 3)))
        return Use(seed, chance.choice(kinds()), way, cache, requests)

    def played(self, model: Any, backend: str | None, options: Any = None) -> list[list[Tensor] | Exception]:
        """What each request gives; without a backend, in eager."""
        torch._dynamo.reset()
        call, told = model, dict[str, Any]({} if self.cache is None else {"cache_implementation": self.cache})
        if backend is not None and self.way == "config":
            config = transformers.CompileConfig(backend=backend, mode=None, options=options)
            setattr(config, COMPILE_EVERYWHERE, True)
            told["compile_config"] = config
        else:
            told["disable_compile"] = True
        if backend is not None and self.way == "model":
            call = torch.compile(model, backend=backend, options=options)
        if backend is not None and self.way == "forward":
            model.forward = torch.compile(model.forward, backend=backend, options=options)
        seen: list[list[Tensor] | Exception] = []
        try:
            for number, request in enumerate(self.requests):
                try:
                    seen.append(request.made(model, call, 10 * self.seed + number, **told))
                except Exception as error:
                    seen.append(error)
        finally:  # what transformers and we have left in the model
            for name in ("forward", "_compiled_call", "_last_compile_config", "_cache"):
                vars(model).pop(name, None)
        return seen
