"""Planning and reading against a broker that changes in between, this one and Apache Kafka; no Spark is started."""

import logging
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from oncelog.client import NewTopic
from oncelog.client.blocking.clients import Admin, Producer
from oncelog.pipeline.options import Options, parse
from oncelog.pipeline.source.lookup import Lookup
from oncelog.pipeline.source.losses import DataLost
from oncelog.pipeline.source.offsets import INITIAL, to_json
from oncelog.pipeline.source.planning import OffsetRange
from oncelog.pipeline.source.reading import read_range
from oncelog.pipeline.source.stream import StreamPlan
from tests.conftest import Start
from tests.support.kafka.server import Kafka
from tests.support.processes.daemon import Daemon

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", params=["oncelog", pytest.param("kafka", marks=pytest.mark.kafka)])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp(request.param)
    running: Daemon | Kafka = Kafka(directory) if request.param == "kafka" else Daemon(directory / "data")
    yield running.bootstrap
    running.stop()


def filled(bootstrap: str, count: int) -> str:
    topic = f"topic-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        admin.create_topics(NewTopic(topic, 1))
        producer.send_many(topic, [(None, b"%d" % number) for number in range(count)])
    return topic


def planned(bootstrap: str, topic: str, **options: str) -> tuple[Options, OffsetRange]:
    """The one task of a first batch."""
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest", **options}
    parsed = parse(given, "readStream")
    lookup = Lookup(parsed)
    try:
        plan = StreamPlan(parsed, lookup)
        (task,) = plan.tasks(to_json(INITIAL), plan.next_end(to_json(INITIAL), None))
    finally:
        lookup.close()
    return parsed, task


def read(options: Options, task: OffsetRange) -> list[int]:
    return [int(value) for batch in read_range(options, task) for value in batch.column("value").to_pylist()]


def test_a_task_reads_what_was_planned(bootstrap: str) -> None:
    topic = filled(bootstrap, 100)
    assert read(*planned(bootstrap, topic)) == [*range(100)]


def test_records_deleted_between_planning_and_reading_fail_the_task_or_are_logged(
    bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = filled(bootstrap, 100)
    options, task = planned(bootstrap, topic)
    careless, same = planned(bootstrap, topic, failOnDataLoss="false")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_records([Place(topic, 0, 60)]).values():
        future.result(10)
    with pytest.raises(DataLost, match=f"{topic}-0 has offset 0 of this batch no more"):
        read(options, task)
    with caplog.at_level(logging.WARNING, "oncelog.spark.source"):
        assert read(careless, same) == [*range(60, 100)]
    assert "data lost (60 offsets)" in caplog.text


def test_a_topic_created_again_between_planning_and_reading_is_not_read_in_place_of_the_old_one(
    bootstrap: str,
) -> None:
    topic = filled(bootstrap, 10)
    options, task = planned(bootstrap, topic)
    careless, same = planned(bootstrap, topic, failOnDataLoss="false")
    with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        admin.delete_topics(topic)
        admin.create_topics(NewTopic(topic, 1))
        producer.send_many(topic, [(None, b"-1")] * 20)
    with pytest.raises(DataLost, match="was deleted and created again"):
        read(options, task)
    assert read(careless, same) == []


def test_a_query_lives_on_when_the_broker_was_killed_and_started_again(start_daemon: Start) -> None:
    daemon = start_daemon()
    topic = filled(daemon.bootstrap, 10)
    options = parse(
        {"kafka.bootstrap.servers": daemon.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}, "readStream"
    )
    lookup = Lookup(options)
    try:
        plan = StreamPlan(options, lookup)
        first = plan.next_end(to_json(INITIAL), 5)
        daemon.kill()
        daemon.start()
        (task,) = plan.tasks(first, plan.next_end(first, None))
        assert read(options, task) == [*range(5, 10)]
    finally:
        lookup.close()
