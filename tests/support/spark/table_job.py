"""A program for `spark-submit`: what topic `to-table` holds goes to a Delta table and to topic `beside`, once each.

Arguments: brokers, and URIs of a checkpoint and a table. Needs nothing of this checkout: executors have an archive.
"""

import sys
from typing import Any

from pyspark.sql import SparkSession

from oncelog.pipeline.sink import exactly_once

ROWS_PER_BATCH = 20


def main(brokers: str, checkpoint: str, table: str) -> None:
    spark = SparkSession.builder.appName("table").getOrCreate()
    options = {"kafka.bootstrap.servers": brokers}
    source = {**options, "subscribe": "to-table", "startingOffsets": "earliest", "maxOffsetsPerTrigger": ROWS_PER_BATCH}
    rows = spark.readStream.format("oncelog").options(**source).load().selectExpr("cast(value as string) as value")

    def publish(batch: Any, batch_id: int) -> None:
        with exactly_once(batch, batch_id, {**options, "checkpointLocation": checkpoint}) as once:
            once.to_topic(batch, "beside").to_delta(batch, table)

    query = rows.writeStream.option("checkpointLocation", checkpoint).foreachBatch(publish).trigger(availableNow=True)
    query.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
