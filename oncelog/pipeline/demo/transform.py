"""What the job computes: running totals of every customer and every month, in whole cents.

Owns: the query between source and sink. One streaming aggregation over keyed amounts: each purchase counts once for its
customer and once for its month. In update mode a micro-batch returns the new totals of the keys that it changed.
"""

from typing import Any

PURCHASE_SCHEMA = "row long, customer string, date string, cents long"


def totals_by_key(records: Any) -> Any:
    """Return a streaming DataFrame of (total_key, cents, purchases), made of one of source records."""
    from pyspark.sql import functions as f

    purchase = f.from_json(f.col("value").cast("string"), PURCHASE_SCHEMA)
    purchases = records.select(purchase.alias("purchase")).select("purchase.*")
    month = f.concat(f.substring("date", 1, 4), f.lit("-"), f.substring("date", 5, 2))
    keyed = purchases.select(
        f.explode(f.array(f.concat(f.lit("customer:"), f.col("customer")), f.concat(f.lit("month:"), month))).alias(
            "total_key"
        ),
        "cents",
    )
    return keyed.groupBy("total_key").agg(f.sum("cents").alias("cents"), f.count("*").alias("purchases"))
