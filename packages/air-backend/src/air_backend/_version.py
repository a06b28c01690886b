"""The version of air-backend."""

__version__ = "0.2.0"
