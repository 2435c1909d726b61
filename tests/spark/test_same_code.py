"""A job moves to `format("oncelog")` by changing one word: the same code with Spark's own format has the same rows."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from oncelog.client.blocking.clients import Producer
from tests.spark.scenes import read, run_to_end
from tests.spark.test_source import new_topic, reading
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.spark
RECORDS = 12
"""The number of records in each partition; the time of each is its number, in seconds."""


@pytest.fixture(scope="module")
def topics(daemon: Daemon) -> tuple[str, str]:
    """Two of two partitions each, whose names begin alike."""
    one, other = (new_topic(daemon, 2, "same") for _ in range(2))
    with Producer(daemon.bootstrap) as producer:
        for topic in (one, other):
            for number in range(RECORDS):
                for partition in range(2):
                    value = f"{topic}:{number}".encode()
                    producer.send_soon(topic, value, partition=partition, timestamp_ms=1000 * number)
        producer.flush()
    return one, other


ENDS = '{"ONE": {"0": 7, "1": -1}, "OTHER": {"0": 3, "1": 4}}'
TIMES = '{"ONE": {"0": 3000, "1": 4500}, "OTHER": {"0": 0, "1": 11000}}'


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "ONE"},
        {"subscribe": "ONE,OTHER", "minPartitions": "7"},
        {"subscribe": "ONE, OTHER", "maxRecordsPerPartition": "5"},
        {"subscribePattern": "ONE|OTH.*|OTHER"},
        {"assign": '{"ONE": [1], "OTHER": [0, 1]}'},
        {"subscribe": "ONE,OTHER", "startingOffsets": '{"ONE": {"0": 5, "1": -2}, "OTHER": {"0": 12, "1": 11}}'},
        {"subscribe": "ONE,OTHER", "endingOffsets": ENDS},
        {"subscribe": "ONE,OTHER", "startingTimestamp": "3500", "endingTimestamp": "9000"},
        {"subscribe": "ONE,OTHER", "startingOffsetsByTimestamp": TIMES},
        {"subscribe": "ONE,OTHER", "endingOffsetsByTimestamp": TIMES},
        {"assign": '{"ONE": [0]}', "startingTimestamp": "99000", "startingOffsetsByTimestampStrategy": "latest"},
        {"SUBSCRIBE": "ONE", "INCLUDEHEADERS": "TRUE", "failOnDataLoss": "False", "kafkaConsumer.pollTimeoutMs": "900"},
    ],
    ids=str,
)
def test_a_batch_is_the_same_by_every_option(
    spark: Any, daemon: Daemon, topics: tuple[str, str], kafka_connector: str, options: dict[str, str]
) -> None:
    given = {name: text.replace("ONE", topics[0]).replace("OTHER", topics[1]) for name, text in options.items()}
    ours, theirs = (reading(spark.read, daemon, name, **given) for name in ("oncelog", kafka_connector))
    assert ours.schema == theirs.schema
    assert Counter(map(str, ours.collect())) == Counter(map(str, theirs.collect()))


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "7"},
        {"startingOffsets": '{"ONE": {"0": 5, "1": -2}}', "minPartitions": "5"},
        {"startingOffsetsByTimestamp": '{"ONE": {"0": 3000, "1": 4500}}'},
        {"startingTimestamp": "2500", "includeHeaders": "true"},
        {"startingOffsets": "latest"},
    ],
    ids=str,
)
def test_a_stream_is_the_same_by_every_option(
    spark: Any, daemon: Daemon, topics: tuple[str, str], kafka_connector: str, tmp_path: Path, options: dict[str, str]
) -> None:
    given = {name: text.replace("ONE", topics[0]) for name, text in options.items()} | {"subscribe": topics[0]}
    seen = []
    for name in ("oncelog", kafka_connector):
        rows = reading(spark.readStream, daemon, name, **given)
        writer = rows.writeStream.format("memory").queryName(f"same_{name}")
        run_to_end(writer.option("checkpointLocation", str(tmp_path / name)))
        seen.append((rows.schema, Counter(map(str, spark.table(f"same_{name}").collect()))))
    assert seen[0] == seen[1]


ROWS = """
select unhex(hex(id)) as key, cast(concat('value ', id) as binary) as value, TOPIC as topic, id as note,
       if(id % 3 = 0, cast(id % 2 as int), null) as partition,
       if(id % 4 = 0, array(struct('n' as key, unhex(hex(id)) as value), struct('n' as key, null as value)), null)
           as headers
from range(40)
union all select unhex('fffe00'), null, TOPIC, 0, null, null
union all select null, unhex('ff'), TOPIC, 0, 1, array()
"""
"""Keys, values that are no text and none, wanted partitions, headers, and a column that is left out."""


@pytest.mark.parametrize("door", ["write", "writeStream"])
@pytest.mark.parametrize("by_row", [True, False], ids=["topics of rows", "option topic"])
def test_what_is_written_is_the_same(
    spark: Any, daemon: Daemon, kafka_connector: str, tmp_path: Path, door: str, by_row: bool
) -> None:
    seen = []
    for name in ("oncelog", kafka_connector):
        topic = new_topic(daemon, 3)
        rows = spark.sql(ROWS.replace("TOPIC", f"'{topic if by_row else 'no-such-topic'}'"))
        options = {"kafka.bootstrap.servers": daemon.bootstrap, "kafka.compression.type": "lz4"}
        options |= {"includeHeaders": "true"} if by_row else {"topic": topic}
        if door == "write":
            rows.write.format(name).options(**options).mode("append").save()
        else:
            rows.write.parquet(str(tmp_path / "rows" / name))
            stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "rows" / name))
            writer = stream.writeStream.format(name).options(**options)
            run_to_end(writer.option("checkpointLocation", str(tmp_path / name)))
        records = read(daemon, topic)
        seen.append(Counter((each.partition, each.key, each.value, tuple(each.headers)) for each in records))
    assert len(seen[0]) > 40
    assert seen[0] == seen[1]
