"""The version of air-fxpasses."""

__version__ = "0.1.0"
