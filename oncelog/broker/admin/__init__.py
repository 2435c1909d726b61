"""The interface to `broker.faults` for other processes: HTTP and JSON on loopback, off by default."""
