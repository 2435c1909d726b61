"""`oncelog log`: looks into a data directory."""
