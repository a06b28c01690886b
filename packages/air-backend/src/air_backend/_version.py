"""The version of air-backend."""

__version__ = "0.1.0"
