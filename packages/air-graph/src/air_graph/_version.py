"""The version of air-graph."""

__version__ = "0.1.0"
