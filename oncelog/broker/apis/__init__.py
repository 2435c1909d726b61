"""The APIs that this broker serves."""
