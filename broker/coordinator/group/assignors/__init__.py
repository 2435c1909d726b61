"""Who reads what: the assignors that the broker itself runs for consumer groups (KIP-848)."""
