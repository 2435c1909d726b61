"""Kafka's wire and record formats: bytes to values and back. Pure: no clock, no socket, nothing of ours imported."""
