"""confluent-kafka's AdminClient, unmodified: topics grow, records go, settings change, and a restart keeps it all."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)

from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.clients.wire import WireBroker
from tests.support.foreign.confluent import new_topic
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

Start = Callable[..., Daemon]
SET, DELETE = AlterConfigOpType.SET, AlterConfigOpType.DELETE
APPEND, SUBTRACT = AlterConfigOpType.APPEND, AlterConfigOpType.SUBTRACT


def admin_of(daemon: Daemon) -> AdminClient:
    return AdminClient({"bootstrap.servers": daemon.bootstrap})


def change(
    admin: AdminClient, kind: ResourceType, name: str, *changes: tuple[str, AlterConfigOpType, str | None]
) -> None:
    entries = [ConfigEntry(key, value, incremental_operation=operation) for key, operation, value in changes]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    (done,) = admin.incremental_alter_configs([resource]).values()
    done.result(PATIENCE_S)


def settings(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    (done,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    found: dict[str, ConfigEntry] = done.result(PATIENCE_S)
    return found


def test_settings_of_a_topic_are_set_appended_subtracted_and_deleted(daemon: Daemon) -> None:
    admin, topic = admin_of(daemon), new_topic(daemon)
    seen = []
    for operation, value in ((APPEND, "compact"), (SUBTRACT, "delete"), (SET, "delete"), (DELETE, None)):
        change(admin, ResourceType.TOPIC, topic, ("cleanup.policy", operation, value))
        entry = settings(admin, ResourceType.TOPIC, topic)["cleanup.policy"]
        seen.append((entry.value, entry.is_default))
    assert seen == [("delete,compact", False), ("compact", False), ("delete", False), ("delete", True)]


@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "words"),
    [
        (ResourceType.TOPIC, None, "no.such.key", "1", "Unknown topic config name: no.such.key"),
        (ResourceType.TOPIC, None, "retention.ms", "-2", "Value must be at least -1"),
        (ResourceType.TOPIC, "nowhere", "retention.ms", "5", "does not exist"),
        (ResourceType.BROKER, "1", "num.partitions", "5", "Cannot update these configs dynamically"),
    ],
)
def test_what_may_not_be_changed_is_refused_in_kafkas_words(
    daemon: Daemon, kind: ResourceType, name: str | None, key: str, value: str, words: str
) -> None:
    admin = admin_of(daemon)
    with pytest.raises(KafkaException, match=words):
        change(admin, kind, name or new_topic(daemon), (key, SET, value))


def test_partitions_records_and_settings_are_kept_over_a_kill(start_daemon: Start) -> None:
    daemon = start_daemon()
    admin, topic = admin_of(daemon), new_topic(daemon)
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENCE_S)
    with pytest.raises(KafkaException, match="would not be an increase"):
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(PATIENCE_S)
    change(admin, ResourceType.TOPIC, topic, ("retention.ms", SET, "123456789"))
    change(admin, ResourceType.BROKER, "1", ("message.max.bytes", SET, "2000000"))
    daemon.kill()
    daemon.start()
    admin = admin_of(daemon)
    assert len(admin.list_topics(topic, 10).topics[topic].partitions) == 3
    found = settings(admin, ResourceType.TOPIC, topic)
    assert found["retention.ms"].value == "123456789"
    assert found["max.message.bytes"].value == "2000000"


def test_records_are_deleted_up_to_an_offset(daemon: Daemon) -> None:
    admin, topic = admin_of(daemon), new_topic(daemon)
    producer = Producer({"bootstrap.servers": daemon.bootstrap})
    for number in range(10):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    partition = TopicPartition(topic, 0, 4)
    assert admin.delete_records([partition])[partition].result(PATIENCE_S).low_watermark == 4
    earliest = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.earliest()})
    assert [done.result(PATIENCE_S).offset for done in earliest.values()] == [4]
    beyond = TopicPartition(topic, 0, 11)
    with pytest.raises(KafkaException, match="OFFSET_OUT_OF_RANGE"):
        admin.delete_records([beyond])[beyond].result(PATIENCE_S)


def test_the_level_of_the_log_changes_while_running(start_daemon: Start) -> None:
    """A stop is logged at the level info, and not once the level is ERROR."""
    daemon = start_daemon()
    broker = WireBroker(daemon.bootstrap)
    entry = AlterableConfig(name="root", config_operation=0, value="ERROR")
    resource = AlterConfigsResource(resource_type=8, resource_name="1", configs=[entry])
    answer = broker.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0]
    assert answer.error_code == 0
    broker.close()
    daemon.stop()
    events = [each["event"] for each in daemon.events()]
    assert "broker.ready" in events
    assert "broker.stopped" not in events
