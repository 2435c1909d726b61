"""Adapters of the ports to the real machine: clock, randomness, disk, event loop."""
