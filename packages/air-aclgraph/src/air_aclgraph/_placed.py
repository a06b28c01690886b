"""What an executable is told about inputs that somebody else put into separate memory."""

from __future__ import annotations

from collections.abc import Sequence

from air_aclgraph._key import Key


class Placed:
    """Memory of inputs that belongs to neither the caller nor the executable; here there is none."""

    @property
    def nbytes(self) -> int:
        """Bytes of this memory, which count for the limit of the executable."""
        return 0

    def stays(self, key: Key) -> Sequence[int]:
        """The inputs of a key that lie in this memory: its capture reads them where they are."""
        return ()

    def dropped(self, key: Key) -> None:
        """The capture of a key is gone; its memory may go as well."""
