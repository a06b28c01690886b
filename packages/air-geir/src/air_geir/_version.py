"""The version of air-geir."""

__version__ = "0.2.0"
