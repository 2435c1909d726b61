"""Coordinators as replayed shards over internal topics."""
