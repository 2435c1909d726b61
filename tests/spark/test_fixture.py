"""Spark against the broker of the fixture, which runs in a thread of the test's own process."""

from typing import Any

import pytest

from oncelog.testing import Broker

pytestmark = pytest.mark.spark


def test_spark_reads_and_writes_topics_of_the_fixture(spark: Any, oncelog_broker: Broker, checkpoint: str) -> None:
    for number in range(5):
        oncelog_broker.produce("orders", b"%d" % number)
    oncelog_broker.create_topic("invoices")
    settings = {"kafka.bootstrap.servers": oncelog_broker.bootstrap_servers}
    orders = spark.readStream.format("oncelog").options(**settings)
    rows = orders.option("subscribe", "orders").option("startingOffsets", "earliest").load()
    invoices = rows.selectExpr("concat('invoice for ', cast(value as string)) as value").writeStream.format("oncelog")
    query = (
        invoices.options(**settings, topic="invoices", checkpointLocation=checkpoint).trigger(availableNow=True).start()
    )
    query.awaitTermination()
    assert sorted(record.value or b"" for record in oncelog_broker.records("invoices")) == [
        b"invoice for %d" % number for number in range(5)
    ]
