"""The assignors of consumer groups, which the broker runs itself (KIP-848): which member reads which partitions."""
