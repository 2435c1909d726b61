"""`partition.metadata` is what Apache Kafka writes, to the byte."""

from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from oncelog.broker.storage.local.partition_directory import PARTITION_METADATA, encode_partition_metadata
from tests.support.kafka.server import Kafka
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.kafka


def test_kafka_writes_the_same_file(tmp_path: Path) -> None:
    kafka = Kafka(tmp_path)
    try:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.create_topics([NewTopic("topic", 1, 1)])["topic"].result(PATIENCE_S)
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        producer.produce("topic", b"value")  # Kafka writes the file with the first batch
        assert producer.flush(PATIENCE_S) == 0
        described = admin.describe_topics(TopicCollection(["topic"]))["topic"].result(PATIENCE_S).topic_id
        bits = (described.get_most_significant_bits(), described.get_least_significant_bits())
        topic_id = UUID(bytes=b"".join(part.to_bytes(8, "big", signed=True) for part in bits))
        written = (tmp_path / "data" / "topic-0" / PARTITION_METADATA).read_bytes()
        controllers = (tmp_path / "data" / "__cluster_metadata-0" / PARTITION_METADATA).read_bytes()
    finally:
        kafka.stop()
    assert written == encode_partition_metadata(topic_id)
    assert controllers == encode_partition_metadata(UUID(int=1))
