"""`oncelog record`: records produced, consumed and deleted, with what became of their transactions."""
