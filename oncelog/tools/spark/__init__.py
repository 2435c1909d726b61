"""`oncelog spark`: what the sink of Spark's queries remembers, and putting it right."""
