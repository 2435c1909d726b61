"""Partitions in memory, for a broker that lives as long as its process: no file is made or read."""
