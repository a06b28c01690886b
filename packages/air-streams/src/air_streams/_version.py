"""The version of air-streams."""

__version__ = "0.2.0"
