"""`oncelog demo`: self-contained demonstrations."""
