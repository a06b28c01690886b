"""The version of air-config."""

__version__ = "0.2.0"
