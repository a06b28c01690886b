"""The version of air-aclgraph."""

__version__ = "0.1.0"
