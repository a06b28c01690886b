"""Every error and warning about functions of `cache_compile`, which are kept on disk."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

from air_config.errors import AirError


@dataclass(eq=False)
class CannotPickle(AirError, pickle.PicklingError):
    """A function of `cache_compile`, or a model that holds one, is pickled: `torch.save(model)`.

    Save the `state_dict`, or take the function out of the model before, and call `cache_compile` where it is read.
    """

    function: str
    what = "{function} is a function of cache_compile, which cannot be pickled: what is compiled belongs to the process"
    advice = "save model.state_dict(), or pickle the model without it, and call cache_compile in the process that reads"


@dataclass(eq=False)
class UnsafeCache(AirError):
    """Another user could have written a file or folder of compiled functions; reading it runs code.

    Take it over (`chown`, `chmod go-w`) if you trust it, or choose another `cache_dir`.
    """

    path: str
    reason: str
    what = "{path} is not read, because reading it runs the code in it: {reason}"
    advice = "make it yours alone (chown, chmod go-w) if you trust what is in it, or give another cache_dir"


class CacheWarning(UserWarning):
    """A graph of `cache_compile` cannot be kept on disk; this process runs what it has traced.

    Do what the message says (free space, get write permission), or give another `cache_dir`.
    """


@dataclass(eq=False)
class TwoConfigurations(AirError):
    """A call got a configuration, and a backend with a different configuration.

    Give one of the two.
    """

    call: str
    what = "{call}(config=..., backend=...) got two different configurations"
    advice = "give one of them, or make the backend with the same configuration"
