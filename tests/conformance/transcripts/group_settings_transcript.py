"""A conversation about the settings of share groups (KIP-932) and streams groups (KIP-1071): of one group, and of the
broker.

Owns: the questions. Does not own: how settings are asked for and shown (`admin_configs_transcript`).
"""

from typing import Any

from tests.clients.asking import Broker, Told, parts_of
from tests.clients.share_requests import ShareMember
from tests.clients.streams_requests import StreamsTalk
from tests.conformance.transcripts.admin_configs_transcript import BROKER, DELETE, GROUP, SET, ConfigTalk

NAME = "settings-group"
_PREFIXES = ("group.share.", "share.", "group.streams.")
_OF_REPLICAS = ("share.coordinator.state.topic.min.isr", "share.coordinator.state.topic.replication.factor")
VALUES = {
    "share.session.timeout.ms": ("50000", "5", "60001", "0", "soon", "", None),
    "share.heartbeat.interval.ms": ("6000", "50", "15001", "0", None),
    "share.record.lock.duration.ms": ("20000", "14999", "60001", "999", "x", None),
    "share.delivery.count.limit": ("7", "1", "2", "10", "11", None),
    "share.partition.max.record.locks": ("150", "99", "4001", "4000", None),
    "share.auto.offset.reset": (
        "earliest",
        "latest",
        "EARLIEST",
        "none",
        "by_duration:PT1H",
        "by_duration:P1D",
        "by_duration:-PT1H",
        "by_duration:",
        "by_duration:1h",
        "by_duration",
        "",
        None,
    ),
    "share.isolation.level": ("read_committed", "READ_COMMITTED", "serializable", "", None),
    "share.renew.acknowledge.enable": ("false", "no", "", None),
    "share.assignment.interval.ms": ("0", "15000", "15001", "-1", None),
    "share.max.size": ("5",),
    "streams.session.timeout.ms": ("50000", "5", "60001", None),
    "streams.heartbeat.interval.ms": ("6000", "50", "15001", None),
    "streams.num.standby.replicas": ("1", "2", "3", "-1", None),
    "streams.initial.rebalance.delay.ms": ("0", "-1", "100000", None),
    "streams.assignment.interval.ms": ("0", "15001", None),
    "streams.task.offset.interval.ms": ("1",),
}
TOGETHER = (
    (("share.session.timeout.ms", SET, "45000"), ("share.heartbeat.interval.ms", SET, "15000")),
    (("streams.session.timeout.ms", SET, "45000"), ("streams.heartbeat.interval.ms", SET, "15000")),
)


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    yield from parts_of(ConfigTalk(broker), tries, changes, of_groups, of_the_broker, at_work)


def tries(talk: ConfigTalk) -> Told:
    for key, texts in VALUES.items():
        for text in texts:
            yield f"{key}={text}", talk.tried(GROUP, NAME, (key, SET, text))
    for changes_together in TOGETHER:
        yield f"{changes_together}", talk.tried(GROUP, NAME, *changes_together)


def changes(talk: ConfigTalk) -> Told:
    yield "unset", talk.described(GROUP, NAME)
    for key, text, default in (
        ("share.auto.offset.reset", "earliest", "latest"),
        ("share.isolation.level", "read_committed", "read_uncommitted"),
        ("share.record.lock.duration.ms", "20000", "30000"),
        ("streams.num.standby.replicas", "1", "0"),
    ):
        answer = talk.changed(GROUP, NAME, (key, SET, text))
        yield f"{key}={text}", (answer, talk.settled(GROUP, NAME, key, text))
        answer = talk.changed(GROUP, NAME, (key, DELETE, None))
        yield f"{key} deleted", (answer, talk.settled(GROUP, NAME, key, default))
    talk.changed(GROUP, NAME, ("share.delivery.count.limit", SET, "7"))
    yield "kept", talk.settled(GROUP, NAME, "share.delivery.count.limit", "7")
    yield "listed", _listed(talk)


def _listed(talk: ConfigTalk) -> Any:
    shape = "config_resources{resource_name resource_type}"
    return talk.ask("ListConfigResources", 1, shape, resource_types=[GROUP])


def of_groups(talk: ConfigTalk) -> Told:
    """Settings of groups, which the groups' own state does not change."""
    members = StreamsTalk(talk.broker)
    members.prepare(log=1)
    members.join("share-group", "m", "log")
    members.streams_join("streams-group", "m")
    keys = ["share.isolation.level", "consumer.session.timeout.ms"]
    for group_id in ("share-group", "streams-group", "no-group", ""):
        yield f"{group_id!r}", talk.described(GROUP, group_id, keys)
    yield "listed", _listed(talk)


def of_the_broker(talk: ConfigTalk) -> Told:
    shown = {entry[0]: entry[1:] for entry in talk.described(BROKER, "1")[2] if entry[0].startswith(_PREFIXES)}
    names = sorted(shown)
    for name in names:
        yield name, shown[name]
    for name in names:
        yield f"{name}, changed", talk.tried(BROKER, "1", (name, SET, "1000"))
    for name, text in (
        ("group.share.assignment.interval.ms", "0"),
        ("group.share.assignment.interval.ms", "20000"),
        ("group.share.assignment.interval.ms", "-1"),
        ("group.share.assignment.interval.ms", "x"),
        ("group.streams.assignment.interval.ms", "0"),
        ("group.streams.assignment.interval.ms", "20000"),
        ("share.coordinator.cached.buffer.max.bytes", "1"),
        ("share.coordinator.append.linger.ms", "5"),
    ):
        yield f"{name}={text}", [talk.tried(BROKER, node, (name, SET, text)) for node in ("1", "")]


def at_work(talk: ConfigTalk) -> Told:
    """Settings that the answers of groups show."""
    members = StreamsTalk(talk.broker)
    members.ids["log"] = members.create("log2", 1)
    members.configure("working", share_heartbeat_interval_ms=7_000, streams_heartbeat_interval_ms=8_000)
    yield "share heartbeat", members.join("working", "m", "log2")
    members.configure("working streams", share_heartbeat_interval_ms=7_000, streams_heartbeat_interval_ms=8_000)
    yield "streams heartbeat", members.streams_join("working streams", "m")[:5]
    members.configure("locking", share_record_lock_duration_ms=16_000)
    yield "share lock", ShareMember(members, "locking").fetch()[2]


DIFFERENCES: dict[str, tuple[str, object]] = {
    f"of_the_broker: {name}": (
        "there is one replica, whatever is asked for",
        ("1", True, 5, False, 4, [(name, "1", 5)]),
    )
    for name in _OF_REPLICAS
}
