"""Suites of tests that are not ours, run with AIR standing in and with the real one, and compared."""
