"""PySpark reads what was committed and publishes what it totals, both exactly once: a source and a sink to reuse."""
