"""Tiny models of transformers: every configuration that its `Auto` classes know, with inputs by their names."""

from __future__ import annotations

import itertools
import time
from typing import Any, Final

from torch import nn
from transformers import AutoConfig
from transformers.models.auto import configuration_auto, modeling_auto

from zoo.arguments import calls
from zoo.made import Made, NotMade, made
from zoo.shrinking import LADDER, Step, overrides, parts

FIRST: Final = (
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_MAPPING_NAMES",
)
CLASSES_AT_MOST: Final = 3
SECONDS: Final = 15.0
"""Of a processor, after which no other step is begun."""


def _mappings() -> list[dict[str, Any]]:
    """From a kind of model to its classes: those that speak before those that do not, then every other task."""
    named = [
        name
        for name in dir(modeling_auto)
        if name.endswith("_MAPPING_NAMES") and name != "CONFIG_MAPPING_NAMES"
    ]
    return [getattr(modeling_auto, name) for name in (*FIRST, *(name for name in named if name not in FIRST))]


def names() -> list[str]:
    """One for each class of configuration that some model is made of."""
    known = {name for mapping in _mappings() for name in mapping}
    by_config: dict[str, str] = {}
    for name in sorted(known):
        by_config.setdefault(configuration_auto.CONFIG_MAPPING_NAMES.get(name, name), name)
    return sorted(by_config.values())


def classes(name: str) -> list[type[nn.Module]]:
    """The models of a kind, the most telling first."""
    import transformers

    listed: list[str] = []
    for mapping in _mappings():
        entry = mapping.get(name, ())
        listed += [entry] if isinstance(entry, str) else list(entry)
    found = (getattr(transformers, each, None) for each in dict.fromkeys(listed))
    return [each for each in found if isinstance(each, type)][:CLASSES_AT_MOST]


def make(name: str) -> Made:
    """The first model of a kind, on the lowest step of the ladder, that runs in eager."""
    faults: list[str] = []
    until = time.process_time() + SECONDS
    for step, model_class in itertools.product(LADDER, classes(name)):
        if time.process_time() > until:
            break
        try:
            return _made(name, model_class, step)
        except Exception as error:  # the next step may do
            faults.append(f"{model_class.__name__}: {type(error).__name__}: {error}")
    raise NotMade(" | ".join(faults) if faults else "no class of models")


def _made(name: str, model_class: Any, step: Step) -> Made:
    config = small(name, step)
    return made(
        lambda: model_class(config),
        lambda model: calls(model.forward, config, getattr(model, "main_input_name", "")),
        step.told,
    )


def small(name: str, step: Step) -> Any:
    """A configuration of the kind, as small as the step says."""
    whole = AutoConfig.for_model(name)
    config = type(whole)(**overrides(whole, step))
    for part in parts(config):
        if hasattr(part, "use_cache"):
            part.use_cache = False
    return config
