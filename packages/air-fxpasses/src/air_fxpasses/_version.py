"""The version of air-fxpasses."""

__version__ = "0.2.0"
