"""Keeps what the Graph Engine compiled in torch's cache: in its folder on disk, and in its artifacts.

    torch.compile(model, backend="air", options={"air.cache.save": True, "mode": "max-autotune"})
    torch.compiler.save_cache_artifacts()        # traced graphs, and what the engine made of them

Files for the engine lie in the folder `air_ge` of torch's cache.  Among torch's artifacts they are entries of its cache
of AOTAutograd, with keys that no graph of torch's has: a process that loads them need not know AIR, and they go with
the others when that cache is cleared.  A compilation that looks for such an entry unpacks it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache, AOTAutogradCacheArtifact
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch.compiler._cache import CacheArtifactManager

from air_config.trust import Untrusted, open_trusted
from air_geir.engines import kept_in, packed, unpacked

log = logging.getLogger(__name__)

PREFIX: Final = "air_ge_"


def folder() -> Path:
    """Where the files of all graphs lie."""
    return Path(cache_dir()) / "air_ge"


@contextlib.contextmanager
def beside_traced_graphs() -> Iterator[None]:
    """What the engine makes of graphs compiled inside is kept in torch's cache, and known to its artifacts."""
    with kept_in(folder(), _Artifacts()):
        yield


class _Artifacts:
    """Carries entries by the artifacts of torch's cache."""

    def bring(self, place: Path) -> None:
        """Unpacks what an artifact has put into torch's cache for this graph."""
        for path in _artifacts(place.name):
            try:
                with open(open_trusted(path), "rb") as file:
                    unpacked(file.read(), place.parent)
            except (OSError, Untrusted) as error:
                log.warning("%s is not taken over: %s", path, error)

    def take(self, place: Path) -> None:
        """Has torch's next artifacts hold the entry."""
        try:
            content = packed(place)
        except (OSError, Untrusted) as error:  # somebody has deleted it
            log.warning("%s is no part of torch's cache artifacts: %s", place, error)
        else:
            CacheArtifactManager.record_artifact(
                AOTAutogradCacheArtifact.type(), PREFIX + place.name, content
            )


def _artifacts(name: str) -> list[Path]:
    return sorted(Path(AOTAutogradCache._get_tmp_dir_for_key(PREFIX + name)).glob("[0-9a-z]*"))
