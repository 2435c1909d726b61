"""The exactly-once pipeline: purchases loaded in transactions, totalled by PySpark, published in transactions."""
