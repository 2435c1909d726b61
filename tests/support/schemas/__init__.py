"""Schemas, pairs of them, and a registry that gives them out."""
