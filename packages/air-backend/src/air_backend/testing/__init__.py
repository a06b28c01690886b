"""Tests for your own model: does a compiled function do what eager does, in every mode?

    from air_backend.testing import assert_same_as_eager

    def test_my_model(air_ground):
        model = MyModel().to(air_ground.device).eval()
        assert_same_as_eager(model, [torch.randn(2, 16, device=air_ground.device)], modes=air_ground.modes)

Results, inputs that are written, and the buffers and gradients of a module are compared after each of several calls:
what is wrong in a replay is often right in the first call. pytest finds the fixtures of `plugin` by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from air_backend.testing._compare import assert_same_as_eager as assert_same_as_eager

__all__ = ["assert_same_as_eager"]


def __getattr__(name: str) -> Any:
    """Imports torch only now: pytest imports the plugin, and with it this package, in every run of every project."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from air_backend.testing import _compare

    return getattr(_compare, name)
