"""Coordinators as shards that are replayed from internal topics."""
