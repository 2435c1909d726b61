"""Benchmarks: what an operation of the broker costs as what it works on grows. They measure; tests/unit/bench holds."""
