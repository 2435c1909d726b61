"""Logs and data directories: made, damaged, compacted, copied and moved."""
