"""`oncelog log`: inspects a data directory."""
