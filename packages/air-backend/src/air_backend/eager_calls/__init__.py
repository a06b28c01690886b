"""Calls of a compiled function that run eagerly: which, why, and how that is said."""

from __future__ import annotations

from air_backend.eager_calls.errors import (
    BackwardLost,
    CastRefused,
    GradientsBatched,
    GradientsCast,
    GradientsOfGradients,
    GradientsRefused,
    NotTraced,
    RunsEagerly,
    SecondDerivativeRefused,
    SharedOtherwise,
    TangentsLost,
    TangentsRefused,
)

__all__ = [
    "BackwardLost",
    "CastRefused",
    "GradientsBatched",
    "GradientsCast",
    "GradientsOfGradients",
    "GradientsRefused",
    "NotTraced",
    "RunsEagerly",
    "SecondDerivativeRefused",
    "SharedOtherwise",
    "TangentsLost",
    "TangentsRefused",
]
