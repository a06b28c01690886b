"""Proves that a graph may be given larger inputs than it was called with, and where its results then lie.

    proof = prove(gm, symbol)        # a Proof, or the Refusal that says which operator forbids it and why

A graph of ATen operators whose inputs have a symbolic size is run at a larger size, the inputs filled up behind what
the caller gave.  The proof says that what was added never reaches what was there: every result without its padding is
the result of the graph at the caller's own size.  It goes by operator (elementwise, row by row, a contraction over
another dimension); an operator without a rule is a refusal, never a guess.

What fills an input up must be copies of its first rows: then the graph runs as if the caller had repeated them, and
no index, divisor or logarithm is one that the caller's own values would not be.  Writes by number (a KV cache) rest on
that: padding writes again what the first rows write.  The larger size must be one that the graph accepts, by its own
guards.
"""

from __future__ import annotations

from air_fxpasses.padding._labels import Label, Labels, PaddedSize
from air_fxpasses.padding._prove import Proof, prove

__all__ = ["Label", "Labels", "PaddedSize", "Proof", "prove"]
