"""Checks of the house that no off-the-shelf tool makes; `nox -s lint docs` runs them."""
