"""`oncelog txn`: transactions, listed, described, followed and ended."""
