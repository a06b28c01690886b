"""Buckets: a dynamic dim is padded to the next of a few declared sizes, and each of those is captured once.

    air_aclgraph.buckets.set_dim_buckets(tokens, {0: [8, 16, 32]})     # a batch of 11 runs as one of 16

Inputs are filled up with copies of their first row, results are cut to the caller's size.  That what was added never
reaches what was there is proven per operator when the graph is compiled (`air_fxpasses.padding`), or the graph is
refused with the operator that forbids it.  A size beyond the largest bucket runs as it is.

A bucket must be a size that the model itself takes: its graph is captured at that size.
"""

from __future__ import annotations

from air_aclgraph.buckets._declared import (
    BUCKETS,
    DeclaredBuckets,
    find_buckets,
    get_dim_buckets,
    set_dim_buckets,
)
from air_aclgraph.buckets._proven import Bucket, proven_buckets

__all__ = [
    "BUCKETS",
    "Bucket",
    "DeclaredBuckets",
    "find_buckets",
    "get_dim_buckets",
    "proven_buckets",
    "set_dim_buckets",
]
