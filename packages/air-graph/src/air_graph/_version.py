"""The version of air-graph."""

__version__ = "0.2.0"
