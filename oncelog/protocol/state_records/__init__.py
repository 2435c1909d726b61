"""Declarations of the records in the internal topics and in the metadata log."""
