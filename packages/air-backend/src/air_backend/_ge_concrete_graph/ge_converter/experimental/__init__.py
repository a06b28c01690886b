"""Modules that make collectives part of graphs when they are imported, as older programs ask for it."""
