"""The log of a partition: offsets, producer state, batch validation, and the port to its store."""
