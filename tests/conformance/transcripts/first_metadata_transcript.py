"""The first Metadata of a topic that it creates: one that never was, and one that was just deleted.

Owns: the questions. A topic that was asked for is asked for until it is there, because Kafka's broker learns of it a
moment after its controller.
"""

from collections.abc import Iterator
from typing import Any

from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from tests.clients.group_members import Broker
from tests.conformance.transcripts.admin_topics_transcript import code, created, gone, topic

Told = Iterator[tuple[str, Any]]


def conversation(broker: Broker) -> Told:
    for version in (1, 4, 12, 13):
        name = f"never-{version}"
        yield f"a topic that never was, version {version}", _asked(broker, name, version)
        yield f"once it is there, version {version}", _settled(broker, name, version)
        name = f"gone-{version}"
        created(broker, topic(name))
        broker.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 5)
        gone(broker, name)
        yield f"a topic that was deleted, version {version}", _asked(broker, name, version)
        yield f"once it is there again, version {version}", _settled(broker, name, version)
    yield "an invalid name", _asked(broker, "a b", 12)


def _asked(broker: Broker, name: str, version: int) -> tuple[str, int]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
    (found,) = broker.ask(request, version).topics
    return code(found.error_code), len(found.partitions)


def _settled(broker: Broker, name: str, version: int) -> tuple[str, int]:
    while (answer := _asked(broker, name, version))[0] == "UNKNOWN_TOPIC_OR_PARTITION":
        broker.let_pass(50)
    return answer


AT_ONCE: dict[str, tuple[str, object]] = {
    f"a topic that {what}, version {version}": ("the topic is durable when it is answered for", ("NONE", 1))
    for what in ("never was", "was deleted")
    for version in (1, 4, 12, 13)
}
