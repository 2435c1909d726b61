"""Spark: a cluster, programs for it, and its sink without it."""
