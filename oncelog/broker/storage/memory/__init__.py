"""Partitions in memory, for a broker that keeps nothing beyond its process: no file is created or read."""
