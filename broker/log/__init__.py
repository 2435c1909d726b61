"""The partition log: segments, indexes, producer state, group commit and recovery."""
