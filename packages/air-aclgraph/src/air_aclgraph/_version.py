"""The version of air-aclgraph."""

__version__ = "0.2.0"
