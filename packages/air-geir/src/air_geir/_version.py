"""The version of air-geir."""

__version__ = "0.1.0"
