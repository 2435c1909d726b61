"""A reusable PySpark source of committed records, and a sink that publishes results, both exactly once."""
