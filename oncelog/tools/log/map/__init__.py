"""`oncelog log map`: a partition as a picture."""
