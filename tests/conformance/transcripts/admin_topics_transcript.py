"""A conversation about topics, partitions and features that any Kafka-compatible broker can be asked to have.

Owns: the questions, and which part of an answer counts: codes and texts, no ids. Kafka's broker learns of a change a
moment after its controller, so a question about what was just changed is asked once that is seen.
"""

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.generated.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from oncelog.protocol.generated.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from oncelog.protocol.generated.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from oncelog.protocol.generated.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.generated.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.clients.group_members import Broker

Told = Iterator[tuple[str, Any]]
NO_ID = UUID(int=0)
_FEATURE = "transaction.version"
UNKNOWN_ID = UUID("11111111-2222-3333-4444-555555555555")


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    for part in (names, sizes, configs, deletions, partitions, records, descriptions, features):
        for name, answer in part(broker):
            yield f"{part.__name__}: {name}", answer


def code(number: int) -> str:
    return ErrorCode(number).name


# --- asking -----------------------------------------------------------------------------------------------------------


def topic(name: str, num_partitions: int = 1, replication_factor: int = 1, **config: str | None) -> CreatableTopic:
    configs = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()]
    return CreatableTopic(
        name=name, num_partitions=num_partitions, replication_factor=replication_factor, configs=configs
    )


def assigned(name: str, *assignments: tuple[int, Sequence[int]], **sizes: int) -> CreatableTopic:
    placed = [CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in assignments]
    return CreatableTopic(
        name=name,
        num_partitions=sizes.get("num_partitions", -1),
        replication_factor=sizes.get("replication_factor", -1),
        assignments=placed,
    )


def created(broker: Broker, *topics: CreatableTopic, version: int = 7, validate_only: bool = False) -> list[Any]:
    request = CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=validate_only)
    answer = broker.ask(request, version)
    told = sorted((entry.name, code(entry.error_code), entry.error_message) for entry in answer.topics)
    for name, error, _ in told:
        if error == "NONE" and not validate_only:
            seen(broker, name)
    return told


def metadata(broker: Broker, *names: str, version: int = 12) -> list[Any]:
    wanted = [MetadataRequestTopic(name=name) for name in names]
    answer = broker.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), version)
    return [
        (code(entry.error_code), entry.name, entry.topic_id != NO_ID, entry.is_internal, len(entry.partitions))
        for entry in answer.topics
    ]


def seen(broker: Broker, name: str, partition_count: int | None = None) -> None:
    """Waits until the broker knows the topic (with so many partitions)."""
    while True:
        ((error, *_, count),) = metadata(broker, name)
        if error == "NONE" and partition_count in (None, count):
            return
        broker.let_pass(50)


def gone(broker: Broker, name: str) -> None:
    while metadata(broker, name)[0][0] == "NONE":
        broker.let_pass(50)


def id_of(broker: Broker, name: str) -> UUID:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    topic_id: UUID = broker.ask(request, 12).topics[0].topic_id
    return topic_id


def produced(broker: Broker, name: str, count: int) -> None:
    for number in range(count):
        batch = memoryview(encode_batch([Record(0, number, b"key", b"value")]))
        data = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[data])
        while broker.ask(request, 8).responses[0].partition_responses[0].error_code:
            broker.let_pass(50)


# --- the parts --------------------------------------------------------------------------------------------------------


def names(broker: Broker) -> Told:
    yield "made", created(broker, topic("first.topic"))
    for name in ("", ".", "..", "x" * 249, "x" * 250, "with space", "umläut", "sla/sh", "first.topic", "first_topic"):
        yield f"named {name[:12]!r} ({len(name)})", created(broker, topic(name))
    yield "twice in one request", created(broker, topic("twice"), topic("twice"), topic("once"))
    yield "colliding in one request", created(broker, topic("col.lide"), topic("col_lide"))
    yield "an internal one", created(broker, topic("__consumer_offsets"))
    yield "another internal one", created(broker, topic("__transaction_state", 3))
    yield "the metadata log", created(broker, topic("__cluster_metadata"))
    yield "two underscores", created(broker, topic("__anything"))
    yield "only tried", created(broker, topic("tried"), validate_only=True)
    yield "only tried, exists", created(broker, topic("once"), topic(""), validate_only=True)
    yield "none", created(broker)
    for version in range(2, 8):
        yield f"exists, version {version}", created(broker, topic("once"), version=version)


def sizes(broker: Broker) -> Told:
    for count in (0, -1, -2, 10_001, 2_147_483_647):
        for version in (3, 7):
            told = created(broker, topic("sized", count), version=version, validate_only=True)
            yield f"{count} partitions, version {version}", told
    yield "too many in one request", created(broker, topic("many", 9_000), topic("more", 9_000), validate_only=True)
    for factor in (0, -1, -2, 2, 3, 32767):
        yield f"replication factor {factor}", created(broker, topic("sized", 1, factor), validate_only=True)
    yield "both wrong", created(broker, topic("sized", 0, 0), validate_only=True)
    for name, wanted in (
        ("one partition", assigned("placed", (0, [1]))),
        ("two partitions", assigned("placed", (0, [1]), (1, [1]))),
        ("with a count", assigned("placed", (0, [1]), num_partitions=1)),
        ("with a factor", assigned("placed", (0, [1]), replication_factor=1)),
        ("an unknown broker", assigned("placed", (0, [7]))),
        ("a known and an unknown broker", assigned("placed", (0, [1, 7]))),
        ("one broker twice", assigned("placed", (0, [1, 1]))),
        ("no broker", assigned("placed", (0, []))),
        ("a negative broker", assigned("placed", (0, [-1]))),
        ("a gap", assigned("placed", (0, [1]), (2, [1]))),
        ("from one on", assigned("placed", (1, [1]))),
        ("one partition twice", assigned("placed", (0, [1]), (0, [1]))),
        ("a negative partition", assigned("placed", (-1, [1]))),
        ("unequal", assigned("placed", (0, [1]), (1, [1, 7]))),
    ):
        yield f"assigned: {name}", created(broker, wanted, validate_only=True)


def configs(broker: Broker) -> Told:
    for key, value in (
        ("no.such.key", "1"),
        ("retention.ms", None),
        ("retention.ms", ""),
        ("retention.ms", "soon"),
        ("retention.ms", "-2"),
        ("retention.ms", "1.5"),
        ("retention.ms", " 5 "),
        ("retention.ms", "9223372036854775808"),
        ("segment.bytes", "10"),
        ("segment.bytes", "2147483648"),
        ("cleanup.policy", "shred"),
        ("cleanup.policy", "compact,shred"),
        ("cleanup.policy", "compact,compact"),
        ("cleanup.policy", ""),
        ("compression.type", "bogus"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.zstd.level", "23"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "x"),
        ("message.timestamp.type", "Now"),
        ("preallocate", "maybe"),
        ("preallocate", "TRUE"),
        ("max.message.bytes", "-1"),
        ("index.interval.bytes", "-1"),
        ("min.insync.replicas", "0"),
        ("flush.messages", "0"),
        ("remote.storage.enable", "true"),
        ("local.retention.ms", "-3"),
        ("leader.replication.throttled.replicas", "bogus"),
        ("leader.replication.throttled.replicas", "0:1,1:1"),
        ("message.format.version", "3.0"),
        ("internal.segment.bytes", "1000"),
        ("Retention.Ms", "5"),
    ):
        wanted = CreatableTopic(
            name="set",
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value)],
        )
        yield f"{key}={value}", created(broker, wanted, validate_only=True)
    yield "setting and size wrong", created(broker, topic("set", 0, no_such_key="1"), validate_only=True)
    yield "name and setting wrong", created(broker, topic("a b", no_such_key="1"), validate_only=True)
    lags = topic("set", min_compaction_lag_ms="10", max_compaction_lag_ms="5")
    yield "lags that contradict", created(broker, lags, validate_only=True)
    local = topic("set", retention_ms="5", local_retention_ms="10")
    yield "local retention beyond retention", created(broker, local, validate_only=True)
    two = [CreatableTopicConfig(name="retention.ms", value=value) for value in ("5", "6")]
    doubled = CreatableTopic(name="set", num_partitions=1, replication_factor=1, configs=two)
    yield "one key twice", created(broker, doubled, validate_only=True)


def deletions(broker: Broker) -> Told:
    def deleted(*states: tuple[str | None, UUID], version: int = 6) -> list[Any]:
        topics = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in states]
        request = DeleteTopicsRequest(
            topics=topics, topic_names=[name for name, _ in states if name is not None], timeout_ms=10_000
        )
        return sorted(
            (
                (entry.name, code(entry.error_code), entry.error_message)
                for entry in broker.ask(request, version).responses
            ),
            key=repr,
        )

    created(broker, topic("doomed"), topic("doomed2"), topic("doomed3"))
    doomed, doomed2 = id_of(broker, "doomed"), id_of(broker, "doomed2")
    for version in range(1, 7):
        yield f"unknown name, version {version}", deleted(("nowhere", NO_ID), version=version)
    yield "no name", deleted(("", NO_ID))
    yield "an impossible name", deleted(("a b", NO_ID))
    yield "unknown id", deleted((None, UNKNOWN_ID))
    yield "neither name nor id", deleted((None, NO_ID))
    yield "both name and id", deleted(("doomed", doomed))
    yield "one name twice", deleted(("doomed", NO_ID), ("doomed", NO_ID))
    yield "one name twice, version 5", deleted(("doomed", NO_ID), ("doomed", NO_ID), version=5)
    yield "one unknown name twice", deleted(("nowhere", NO_ID), ("nowhere", NO_ID))
    yield "one id twice", deleted((None, doomed), (None, doomed))
    yield "one topic by name and by id", deleted(("doomed", NO_ID), (None, doomed))
    yield "by name", deleted(("doomed", NO_ID))
    gone(broker, "doomed")
    yield "again", deleted(("doomed", NO_ID))
    yield "by its old id", deleted((None, doomed))
    yield "by id", deleted((None, doomed2))
    yield "none", deleted()
    yield "an old version", deleted(("doomed3", NO_ID), version=1)
    yield "made again", created(broker, topic("doomed"))
    yield "with another id", id_of(broker, "doomed") != doomed


def partitions(broker: Broker) -> Told:
    def grown(
        name: str,
        count: int,
        *assignments: Sequence[int],
        version: int = 3,
        validate_only: bool = True,
        twice: bool = False,
    ) -> list[Any]:
        placed = [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments] or None
        wanted = CreatePartitionsTopic(name=name, count=count, assignments=placed)
        request = CreatePartitionsRequest(topics=[wanted] * (1 + twice), timeout_ms=10_000, validate_only=validate_only)
        answer = broker.ask(request, version)
        return [(entry.name, code(entry.error_code), entry.error_message) for entry in answer.results]

    created(broker, topic("grown", 2))
    yield "of no topic", grown("nowhere", 3)
    for name in ("", "a b"):
        yield f"of {name!r}", grown(name, 3)
    for count in (2, 1, 0, -1, -5, 10_003):
        yield f"to {count}", grown("grown", count)
    yield "twice in one request", grown("grown", 3, twice=True)
    for version in range(4):
        yield f"tried, version {version}", grown("grown", 3, version=version)
    yield "with an assignment", grown("grown", 3, [1])
    yield "with two assignments", grown("grown", 4, [1], [1])
    yield "with too few assignments", grown("grown", 4, [1])
    yield "with too many assignments", grown("grown", 3, [1], [1])
    yield "assigned to an unknown broker", grown("grown", 3, [7])
    yield "assigned to two, one unknown", grown("grown", 3, [1, 7])
    yield "assigned to one twice", grown("grown", 3, [1, 1])
    yield "assigned to nobody", grown("grown", 3, [])
    yield "an internal one", grown("__transaction_state", 4)
    yield "done", grown("grown", 4, validate_only=False)
    seen(broker, "grown", 4)
    yield "seen", metadata(broker, "grown")


def records(broker: Broker) -> Told:
    def cut(name: str, offset: int, partition: int = 0, version: int = 2) -> list[Any]:
        wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=[wanted])], timeout_ms=10_000)
        return [
            (entry.name, part.partition_index, part.low_watermark, code(part.error_code))
            for entry in broker.ask(request, version).topics
            for part in entry.partitions
        ]

    created(
        broker, topic("cut"), topic("kept", cleanup_policy="compact"), topic("both", cleanup_policy="compact,delete")
    )
    for name in ("cut", "kept", "both"):
        produced(broker, name, 5)
    yield "of no topic", cut("nowhere", 1)
    yield "of no partition", cut("cut", 1, 9)
    yield "of a negative partition", cut("cut", 1, -1)
    yield "of an internal topic", cut("__transaction_state", 0)
    yield "beyond the end", cut("cut", 6)
    yield "a negative offset", cut("cut", -2)
    for version in range(3):
        yield f"before 2, version {version}", cut("cut", 2, version=version)
    yield "before 1 afterwards", cut("cut", 1)
    yield "before the high watermark", cut("cut", -1)
    yield "again", cut("cut", 5)
    yield "of a compacted topic", cut("kept", 2)
    yield "of one compacted and deleted", cut("both", 2)


def descriptions(broker: Broker) -> Told:
    def described(names: Sequence[str], limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        )
        answer = broker.ask(request, 0)
        rest = answer.next_cursor
        found = [
            (
                code(entry.error_code),
                entry.name,
                entry.topic_id != NO_ID,
                entry.is_internal,
                [
                    (
                        code(part.error_code),
                        part.partition_index,
                        part.leader_id,
                        part.leader_epoch,
                        tuple(part.replica_nodes),
                        tuple(part.isr_nodes),
                        part.eligible_leader_replicas if part.eligible_leader_replicas is None else "listed",
                        part.last_known_elr if part.last_known_elr is None else "listed",
                        tuple(part.offline_replicas),
                    )
                    for part in entry.partitions
                ],
                entry.topic_authorized_operations,
            )
            for entry in answer.topics
        ]
        return found, None if rest is None else (rest.topic_name, rest.partition_index)

    created(broker, topic("shown.a", 3), topic("shown.b", 2), topic("shown.c"))
    shown = ["shown.c", "shown.a", "shown.b"]
    yield "all", described(shown)
    yield "internal", described(["__transaction_state"])
    yield "unknown", described(["nowhere", "shown.c"])
    yield "impossible", described(["a b"])
    yield "named twice", described(["shown.c", "shown.c"])
    for limit in (1, 2, 3, 4, 6, 0, -1):
        yield f"at most {limit}", described(shown, limit)
    for cursor in (
        ("shown.a", 1),
        ("shown.a", 3),
        ("shown.b", 0),
        ("shown.bb", 0),
        ("shown.z", 0),
        ("shown.a", -1),
        ("nowhere", 1),
    ):
        yield f"from {cursor}", described(shown, 3, cursor)
    for cursor in (("shown.b", 0), ("shown.aa", 5)):
        yield f"nothing named, from {cursor}", [entry[1] for entry in described([], 2, cursor)[0]]
    for version in (0, 4, 9, 10, 12, 13):
        for name in ("shown.a", "nowhere", "a b", "", "__transaction_state"):
            if (name, version) == ("nowhere", 0):
                continue  # that version makes what it asks for
            yield f"metadata of {name!r}, version {version}", metadata(broker, name, version=version)
    for version in (10, 11, 12, 13):
        wanted = MetadataRequestTopic(name=None, topic_id=UNKNOWN_ID)
        answer = broker.ask(MetadataRequest(topics=[wanted]), version) if version > 11 else None
        told = (
            [(code(entry.error_code), entry.name, entry.topic_id == UNKNOWN_ID) for entry in answer.topics]
            if answer
            else []
        )
        yield f"metadata of an unknown id, version {version}", told
    both = MetadataRequestTopic(name="shown.a", topic_id=id_of(broker, "shown.a"))
    answer = broker.ask(MetadataRequest(topics=[both]), 12)
    yield "metadata by name and id", [(code(entry.error_code), entry.name) for entry in answer.topics]
    mixed = [MetadataRequestTopic(name=None, topic_id=id_of(broker, "shown.a")), MetadataRequestTopic(name="shown.b")]
    answer = broker.ask(MetadataRequest(topics=mixed), 12)
    yield "metadata of an id and a name", sorted((code(entry.error_code), entry.name) for entry in answer.topics)
    answer = broker.ask(MetadataRequest(topics=[], include_cluster_authorized_operations=True), 8)
    yield "operations on the cluster", answer.cluster_authorized_operations
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="shown.a")], include_topic_authorized_operations=True)
    yield "operations on a topic", broker.ask(asked, 12).topics[0].topic_authorized_operations
    made = MetadataRequest(topics=[MetadataRequestTopic(name="a b")], allow_auto_topic_creation=True)
    yield "auto-creation of an impossible name", [code(entry.error_code) for entry in broker.ask(made, 12).topics]
    made = MetadataRequest(topics=[MetadataRequestTopic(name="shown_a")], allow_auto_topic_creation=True)
    yield "auto-creation of a colliding name", [code(entry.error_code) for entry in broker.ask(made, 12).topics]


# One question after the other, each with its name.
def features(broker: Broker) -> Told:  # noqa: C901
    def updated(
        *updates: tuple[str, int, int], version: int = 2, validate_only: bool = True, allow: bool = False
    ) -> Any:
        keys = [
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind, allow_downgrade=allow)
            for name, level, kind in updates
        ]
        request = UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=keys, validate_only=validate_only)
        answer = broker.ask(request, version)
        results = [(entry.feature, code(entry.error_code), entry.error_message) for entry in answer.results]
        return code(answer.error_code), answer.error_message, results

    def shown(version: int) -> Any:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        answer = broker.ask(request, version)
        return (
            [(item.min_version, item.max_version) for item in answer.supported_features if item.name == _FEATURE],
            [
                (item.min_version_level, item.max_version_level)
                for item in answer.finalized_features
                if item.name == _FEATURE
            ],
        )

    def until(level: int) -> None:
        while shown(4)[1] != ([(level, level)] if level else []):
            broker.let_pass(50)

    for version in (0, 2, 3, 4):
        yield f"shown, version {version}", shown(version)
    upgrade, safe, unsafe = 1, 2, 3
    for name, update in (
        ("unknown feature", ("no.such.feature", 1, upgrade)),
        ("empty name", ("", 1, upgrade)),
        ("the same level", ("transaction.version", 2, upgrade)),
        ("beyond what is supported", ("transaction.version", 3, upgrade)),
        ("negative level", ("transaction.version", -1, upgrade)),
        ("down as an upgrade", ("transaction.version", 1, upgrade)),
        ("down safely", ("transaction.version", 1, safe)),
        ("down unsafely", ("transaction.version", 1, unsafe)),
        ("up as a safe downgrade", ("transaction.version", 3, safe)),
        ("the same level as a downgrade", ("transaction.version", 2, safe)),
        ("off as an upgrade", ("transaction.version", 0, upgrade)),
        ("off safely", ("transaction.version", 0, safe)),
        ("metadata.version to 30", ("metadata.version", 30, upgrade)),
        ("an unknown kind of update", ("transaction.version", 1, 0)),
        ("another unknown kind of update", ("transaction.version", 1, 9)),
    ):
        for version in (1, 2):
            yield f"{name}, version {version}", updated(update, version=version)
    for level in (0, 1, 29, 31):
        answer = updated(("metadata.version", level, unsafe))
        yield f"metadata.version to {level}", (answer[0], (answer[1] or "").replace("7-30", "30-30"))
    good, bad = ("transaction.version", 1, safe), ("transaction.version", 9, upgrade)
    for version in (1, 2):
        yield f"none, version {version}", updated(version=version)
        yield f"one good, one bad, version {version}", updated(good, ("no.such.feature", 9, upgrade), version=version)
        yield f"twice, version {version}", updated(good, bad, version=version)
    yield "version 0 forbids a downgrade", updated(good, version=0, validate_only=False)
    before = broker.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    yield "done", updated(("transaction.version", 1, safe), validate_only=False)
    until(1)
    after = broker.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    yield "the epoch has moved", after.finalized_features_epoch > before.finalized_features_epoch
    for kind in (upgrade, safe, unsafe):
        yield f"up again as {kind}", updated(("transaction.version", 2, kind))
    old = ("transaction.version", 0, upgrade)
    yield "what version 0 says of a downgrade", updated(old, version=0, allow=True, validate_only=False)
    yield "off", updated(("transaction.version", 0, safe), validate_only=False)
    until(0)
    yield "shown at level 0", shown(4)
    yield "and back", updated(("transaction.version", 2, upgrade), validate_only=False)
    until(2)


_FAILED = "The update failed for all features since the following feature had an error: Invalid update version "

# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {
    "names: colliding in one request": (
        "Kafka looks for collisions only among topics that were there before the request",
        [
            ("col.lide", "NONE", None),
            ("col_lide", "INVALID_TOPIC_EXCEPTION", "Topic 'col_lide' collides with existing topic: col.lide"),
        ],
    ),
    "partitions: to 10003": (
        "Kafka has no bound here; ours is the one that CreateTopics has, over what is added",
        [("grown", "POLICY_VIOLATION", "Excessively large number of partitions per request.")],
    ),
    "features: metadata.version to 29": (
        "Kafka can go back to the level of 4.2; here there is one level",
        (
            "INVALID_UPDATE_VERSION",
            f"{_FAILED}29 for feature metadata.version. Local controller 1 only supports versions 30-30",
        ),
    ),
    "descriptions: auto-creation of a colliding name": (
        "Kafka's broker does not wait for its controller, and the client asks on until its time is up",
        ["INVALID_TOPIC_EXCEPTION"],
    ),
}
