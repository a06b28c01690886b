"""The version of air-sim."""

__version__ = "0.1.0"
