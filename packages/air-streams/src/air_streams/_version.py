"""The version of air-streams."""

__version__ = "0.1.0"
