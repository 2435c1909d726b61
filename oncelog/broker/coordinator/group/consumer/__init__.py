"""Consumer groups (KIP-848): the broker assigns partitions, and members move to the target epoch by epoch."""
