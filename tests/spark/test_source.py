"""`format("oncelog")` reads topics in Spark: columns as Spark's Kafka source has them, what is committed, all of it."""

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewPartitions

from oncelog.client import NewTopic, Producer
from oncelog.client.blocking.clients import Admin
from oncelog.client.blocking.clients import Producer as BlockingProducer
from oncelog.pipeline.progress import lag
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.spark


def new_topic(daemon: Daemon, partition_count: int = 1, prefix: str = "topic") -> str:
    name = f"{prefix}-{uuid.uuid4().hex[:8]}"
    with Admin(daemon.bootstrap) as admin:
        admin.create_topics(NewTopic(name, partition_count))
    return name


def write(daemon: Daemon, topic: str, numbers: range) -> None:
    """The numbers as keys and values, over all partitions."""
    with BlockingProducer(daemon.bootstrap) as producer:
        producer.send_many(topic, [(b"%d" % number, b"%d" % number) for number in numbers])
        producer.flush()


async def write_aborted(daemon: Daemon, topic: str) -> None:
    async with Producer(daemon.bootstrap, transactional_id=topic) as producer:
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction() as transaction:
                await transaction.send_soon(topic, b"aborted")
                await producer.flush()
                raise ZeroDivisionError


def recreate(daemon: Daemon, topic: str, partition_count: int) -> None:
    with Admin(daemon.bootstrap) as admin:
        admin.delete_topics(topic)
        admin.create_topics(NewTopic(topic, partition_count))


def delete_before(daemon: Daemon, topic: str, offset: int) -> None:
    """Delete records below an offset, as retention does."""
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
    for future in admin.delete_records([Place(topic, 0, offset)]).values():
        future.result(10)


def reading(spark_reader: Any, daemon: Daemon, name: str = "oncelog", **options: object) -> Any:
    reader = spark_reader.format(name).option("kafka.bootstrap.servers", daemon.bootstrap)
    return reader.options(**{key: str(value) for key, value in options.items()}).load()


def run(stream: Any, checkpoint: str) -> tuple[list[bytes], list[Mapping[str, Any]]]:
    """All that a run with AvailableNow delivers, and the progress of its batches."""
    values: list[bytes] = []

    def collect(batch: Any, batch_id: int) -> None:
        values.extend(row.value for row in batch.select("value").collect())

    writer = stream.writeStream.option("checkpointLocation", checkpoint).foreachBatch(collect)
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return values, [dict(each) for each in query.recentProgress]


def numbers(values: list[bytes]) -> list[int]:
    return sorted(int(value) for value in values)


def test_the_same_code_reads_the_same_rows_and_columns_with_sparks_own_format(
    spark: Any, daemon: Daemon, kafka_connector: str
) -> None:
    topic = new_topic(daemon, 3)
    with BlockingProducer(daemon.bootstrap, compression_type="lz4") as producer:
        for number in range(50):
            headers = [("n", b"%d" % number), ("n", None)][: number % 3]
            key = b"%d" % number if number % 4 else None
            producer.send_soon(topic, None if number % 7 == 0 else b"\xff%d" % number, key=key, headers=headers)
        producer.flush()
    asyncio.run(write_aborted(daemon, topic))
    options = {
        "subscribe": topic,
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        "minPartitions": "5",
    }
    one, other = (reading(spark.read, daemon, name, **options) for name in ("oncelog", kafka_connector))
    assert one.schema == other.schema
    assert sorted(one.collect(), key=str) == sorted(other.collect(), key=str)
    assert one.count() == 50
    assert [reading(spark.readStream, daemon, name, **options).schema for name in ("oncelog", kafka_connector)] == [
        one.schema
    ] * 2


def test_a_query_is_moved_from_sparks_own_format_with_its_checkpoint(
    spark: Any, daemon: Daemon, kafka_connector: str, checkpoint: str
) -> None:
    topic = new_topic(daemon, 2)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    write(daemon, topic, range(30))
    assert numbers(run(reading(spark.readStream, daemon, kafka_connector, **options), checkpoint)[0]) == [*range(30)]
    write(daemon, topic, range(30, 50))
    assert numbers(run(reading(spark.readStream, daemon, **options), checkpoint)[0]) == [*range(30, 50)]


def test_keys_and_values_that_are_no_text_come_as_they_are(spark: Any, daemon: Daemon) -> None:
    topic = new_topic(daemon)
    with BlockingProducer(daemon.bootstrap) as producer:
        producer.send_many(topic, [(bytes([byte]), bytes([byte])) for byte in range(256)])
        producer.flush()
    rows = reading(spark.read, daemon, subscribe=topic).collect()
    assert [(bytes(row.key), bytes(row.value)) for row in rows] == [(bytes([byte]),) * 2 for byte in range(256)]


def test_available_now_reads_everything_in_as_many_batches_as_it_takes(
    spark: Any, daemon: Daemon, checkpoint: str
) -> None:
    topic = new_topic(daemon, 2)
    write(daemon, topic, range(100))
    asyncio.run(write_aborted(daemon, topic))
    stream = reading(spark.readStream, daemon, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=40)
    values, progress = run(stream, checkpoint)
    assert numbers(values) == [*range(100)]
    assert len(progress) == 3
    lags = [sum(lag(each).values()) for each in progress]
    assert lags == sorted(lags, reverse=True)
    assert (lags[0] > 50, lags[-1]) == (True, 0)
    assert run(stream, checkpoint)[0] == []


def test_aborted_records_are_read_only_if_that_is_asked_for(spark: Any, daemon: Daemon) -> None:
    topic = new_topic(daemon)
    write(daemon, topic, range(3))
    asyncio.run(write_aborted(daemon, topic))
    uncommitted = {"subscribe": topic, "kafka.isolation.level": "read_uncommitted"}
    assert reading(spark.read, daemon, subscribe=topic).count() == 3
    assert reading(spark.read, daemon, **uncommitted).count() == 4


def test_a_topic_created_again_is_refused_and_read_from_its_beginning_where_loss_is_accepted(
    spark: Any, daemon: Daemon, checkpoint: str
) -> None:
    topic = new_topic(daemon, 2)
    write(daemon, topic, range(10))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    assert len(run(reading(spark.readStream, daemon, **options), checkpoint)[0]) == 10
    recreate(daemon, topic, 1)
    write(daemon, topic, range(100, 130))
    with pytest.raises(Exception, match=r"was deleted and created again.*failOnDataLoss=false"):
        run(reading(spark.readStream, daemon, **options), checkpoint)
    careless = reading(spark.readStream, daemon, **options, failOnDataLoss="false")
    assert numbers(run(careless, checkpoint)[0]) == [*range(100, 130)]


def test_records_that_retention_took_are_refused_and_counted_where_loss_is_accepted(
    spark: Any, daemon: Daemon, checkpoint: str
) -> None:
    topic = new_topic(daemon)
    write(daemon, topic, range(10))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    run(reading(spark.readStream, daemon, **options), checkpoint)
    write(daemon, topic, range(10, 30))
    delete_before(daemon, topic, 25)
    with pytest.raises(Exception, match="offsets 10 to 24 were deleted before they were read"):
        run(reading(spark.readStream, daemon, **options), checkpoint)
    values, progress = run(reading(spark.readStream, daemon, **options, failOnDataLoss="false"), checkpoint)
    assert numbers(values) == [*range(25, 30)]
    assert '"lost": {"0": 15}' in progress[0]["sources"][0]["endOffset"]


def test_new_partitions_and_new_topics_of_a_pattern_are_read_from_their_beginning(
    spark: Any, daemon: Daemon, checkpoint: str
) -> None:
    prefix = f"pattern-{uuid.uuid4().hex[:8]}"
    topic = new_topic(daemon, 1, prefix)
    write(daemon, topic, range(10))
    stream = reading(spark.readStream, daemon, subscribePattern=f"{prefix}-.*", startingOffsets="latest")
    assert run(stream, checkpoint)[0] == []
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(10)
    write(daemon, topic, range(10, 40))
    write(daemon, new_topic(daemon, 2, prefix), range(40, 60))
    assert numbers(run(stream, checkpoint)[0]) == [*range(10, 60)]


def test_a_batch_reads_between_two_offsets_and_between_two_times(spark: Any, daemon: Daemon) -> None:
    topic = new_topic(daemon)
    with BlockingProducer(daemon.bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, timestamp_ms=1000 * number)
    by_offset = {"startingOffsets": f'{{"{topic}": {{"0": 2}}}}', "endingOffsets": f'{{"{topic}": {{"0": 5}}}}'}
    rows = reading(spark.read, daemon, subscribe=topic, **by_offset).collect()
    assert numbers([row.value for row in rows]) == [2, 3, 4]
    by_time = {"startingTimestamp": 3000, "endingTimestamp": 5500}
    rows = reading(spark.read, daemon, assign=f'{{"{topic}": [0]}}', **by_time).collect()
    assert numbers([row.value for row in rows]) == [3, 4, 5]
    assert reading(spark.read, daemon, subscribe=topic, startingOffsets=f'{{"{topic}": {{"0": 10}}}}').count() == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "exactly one of subscribe, subscribePattern, assign says what to read"),
        ({"subscribe": "{topic}", "startingOffset": "earliest"}, "did you mean startingOffsets?"),
        ({"subscribe": "{topic}", "startingOffsets": "first"}, "startingOffsets='first': earliest, latest, or JSON"),
        ({"subscribe": "{topic}x"}, "topic '{topic}x' does not exist: did you mean '{topic}'?"),
        ({"subscribePattern": "no-such-.*"}, "matches no topic"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence_and_no_topic_is_created(
    spark: Any, daemon: Daemon, checkpoint: str, options: dict[str, str], sentence: str
) -> None:
    topic = new_topic(daemon)
    given = {name: text.replace("{topic}", topic) for name, text in options.items()}
    for attempt in (
        lambda: reading(spark.read, daemon, **given).count(),
        lambda: run(reading(spark.readStream, daemon, **given), checkpoint),
    ):
        with pytest.raises(Exception) as raised:
            attempt()
        assert sentence.replace("{topic}", topic) in str(raised.value)
    with Admin(daemon.bootstrap) as admin:
        assert f"{topic}x" not in admin.list_topics()
