"""The version of air-config."""

__version__ = "0.1.0"
