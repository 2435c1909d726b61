"""The first Metadata of a topic that it creates: one that never was, and one that was just deleted.

Owns: the questions. A topic that was asked for is asked for until it is there, because Kafka's broker learns of it a
moment after its controller.
"""

from tests.clients.asking import Broker, Told
from tests.conformance.transcripts.admin_topics_transcript import TopicTalk, topic


def conversation(broker: Broker) -> Told:
    talk = TopicTalk(broker)
    for version in (1, 4, 12, 13):
        name = f"never-{version}"
        yield f"a topic that never was, version {version}", _asked(talk, name, version)
        yield f"once it is there, version {version}", _settled(talk, name, version)
        name = f"gone-{version}"
        talk.created(topic(name))
        talk.delete(name)
        yield f"a topic that was deleted, version {version}", _asked(talk, name, version)
        yield f"once it is there again, version {version}", _settled(talk, name, version)
    yield "an invalid name", _asked(talk, "a b", 12)


def _asked(talk: TopicTalk, name: str, version: int) -> tuple[str, int]:
    asked = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
    found: tuple[str, int] = talk.ask("Metadata", version, "topics.0(error_code partitions:len)", **asked)
    return found


def _settled(talk: TopicTalk, name: str, version: int) -> tuple[str, int]:
    while (answer := _asked(talk, name, version))[0] == "UNKNOWN_TOPIC_OR_PARTITION":
        talk.broker.let_pass(50)
    return answer


AT_ONCE: dict[str, tuple[str, object]] = {
    f"a topic that {what}, version {version}": ("the topic is durable when it is answered for", ("NONE", 1))
    for what in ("never was", "was deleted")
    for version in (1, 4, 12, 13)
}
