"""The layers under a configuration as they are at one moment, for what is resolved later and belongs to that moment.

layers = HeldLayers()          # while the first half of a graph is compiled
...
with layers.again():           # when the second half is, maybe in another thread
    resolve(config, context)
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from air_config._context import of_options, variables_held
from air_config._patch import active_patches, patches_held

__all__ = ["HeldLayers"]


class HeldLayers:
    """The patches that are active, and the variables of options, when it is made."""

    def __init__(self) -> None:
        self._patches = active_patches()
        self._variables = of_options(os.environ)

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """A block in which configurations are resolved over these layers, and not over those of now."""
        with patches_held(self._patches), variables_held(self._variables):
            yield
