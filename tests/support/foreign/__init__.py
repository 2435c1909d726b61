"""Clients that other people write: where they are, programs of them, and what they are fed with."""
