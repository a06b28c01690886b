"""Operator types as functions: `ge_apis.Muls(x, value=2.0)`."""

from __future__ import annotations

from typing import Any

from air_geir.ge import apis
from air_geir.ge.apis import Cast, Clone, Const

__all__ = ["Cast", "Clone", "Const"]


def __getattr__(name: str) -> Any:
    return getattr(apis, name)
