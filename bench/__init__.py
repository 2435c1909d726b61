"""Benchmarks: the cost of the broker's operations as their data grows. They measure; tests/unit/bench asserts."""
