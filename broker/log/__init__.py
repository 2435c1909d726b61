"""The log of a partition: offsets, producer state, validation of batches, and the port to where it lies."""
