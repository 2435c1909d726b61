"""`oncelog demo`: shows of their own."""
