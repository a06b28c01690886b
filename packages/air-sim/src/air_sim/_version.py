"""The version of air-sim."""

__version__ = "0.2.0"
