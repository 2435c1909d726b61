"""A conversation about topics, partitions and features that any Kafka-compatible broker can be asked to have.

Owns: the questions, and which part of an answer counts: codes and texts, no ids. Kafka's broker learns of a change a
moment after its controller, so a question about what was just changed is asked once that is seen.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tests.clients.asking import NO_ID, Asker, Broker, Told, batch, one_partition, parts_of, same, settings

_FEATURE = "transaction.version"
_SOFTWARE = {"client_software_name": "test", "client_software_version": "1"}
UNKNOWN_ID = UUID("11111111-2222-3333-4444-555555555555")


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    yield from parts_of(
        TopicTalk(broker), names, sizes, configs, deletions, partitions, records, descriptions, features
    )


# --- asking -----------------------------------------------------------------------------------------------------------

_ERROR = "name error_code error_message"


def topic(name: str, num_partitions: int = 1, replication_factor: int = 1, **config: str | None) -> dict[str, Any]:
    sizes = {"num_partitions": num_partitions, "replication_factor": replication_factor}
    return {"name": name, **sizes, "configs": settings(config)}


def assigned(name: str, *assignments: tuple[int, Sequence[int]], **sizes: int) -> dict[str, Any]:
    return {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": assignments, **sizes}


class TopicTalk(Asker):
    def created(self, *topics: dict[str, Any], version: int = 7, validate_only: bool = False) -> Any:
        fields = {"topics": topics, "timeout_ms": 10_000, "validate_only": validate_only}
        told = self.ask("CreateTopics", version, f"topics{{{_ERROR}}}", **fields)
        for name, error, _ in told:
            if error == "NONE" and not validate_only:
                self.seen(name)
        return told

    def tried(self, *topics: dict[str, Any], version: int = 7) -> Any:
        return self.created(*topics, version=version, validate_only=True)

    def metadata(self, *names: str, version: int = 12) -> Any:
        asked = {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": False}
        answer = self.ask("Metadata", version, **asked)
        shape = "topics(error_code name topic_id:has_id is_internal partitions:len)"
        return self.counts(answer, shape, has_id=_has_id)

    def seen(self, name: str, partition_count: int | None = None) -> None:
        """Waits until the broker knows the topic (with so many partitions)."""
        while True:
            ((error, *_, count),) = self.metadata(name)
            if error == "NONE" and partition_count in (None, count):
                return
            self.broker.let_pass(50)

    def gone(self, name: str) -> None:
        while self.metadata(name)[0][0] == "NONE":
            self.broker.let_pass(50)

    def delete(self, name: str) -> None:
        """Delete a topic, and wait until the broker has forgotten it."""
        self.ask("DeleteTopics", 5, topic_names=[name], timeout_ms=10_000)
        self.gone(name)

    def id_of(self, name: str) -> UUID:
        asked = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
        topic_id: UUID = self.ask("Metadata", 12, "topics.0.topic_id", **asked)
        return topic_id

    def produced(self, name: str, count: int) -> None:
        for number in range(count):
            data = [{"index": 0, "records": batch([(b"key", b"value")], number)}]
            asked = {"acks": -1, "timeout_ms": 5_000, "topic_data": [{"name": name, "partition_data": data}]}
            shape = "responses.0.partition_responses.0.error_code"
            self.until(lambda error: error == "NONE", "Produce", 8, shape, **asked)


def _has_id(topic_id: UUID) -> bool:
    return topic_id != NO_ID


# --- the parts --------------------------------------------------------------------------------------------------------


def names(talk: TopicTalk) -> Told:
    yield "made", talk.created(topic("first.topic"))
    for name in ("", ".", "..", "x" * 249, "x" * 250, "with space", "umläut", "sla/sh", "first.topic", "first_topic"):
        yield f"named {name[:12]!r} ({len(name)})", talk.created(topic(name))
    yield "twice in one request", talk.created(topic("twice"), topic("twice"), topic("once"))
    yield "colliding in one request", talk.created(topic("col.lide"), topic("col_lide"))
    yield "an internal one", talk.created(topic("__consumer_offsets"))
    yield "another internal one", talk.created(topic("__transaction_state", 3))
    yield "the metadata log", talk.created(topic("__cluster_metadata"))
    yield "two underscores", talk.created(topic("__anything"))
    yield "only tried", talk.tried(topic("tried"))
    yield "only tried, exists", talk.tried(topic("once"), topic(""))
    yield "none", talk.created()
    for version in range(2, 8):
        yield f"exists, version {version}", talk.created(topic("once"), version=version)


def sizes(talk: TopicTalk) -> Told:
    for count in (0, -1, -2, 10_001, 2_147_483_647):
        for version in (3, 7):
            told = talk.tried(topic("sized", count), version=version)
            yield f"{count} partitions, version {version}", told
    yield "too many in one request", talk.tried(topic("many", 9_000), topic("more", 9_000))
    for factor in (0, -1, -2, 2, 3, 32767):
        yield f"replication factor {factor}", talk.tried(topic("sized", 1, factor))
    yield "both wrong", talk.tried(topic("sized", 0, 0))
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
        yield f"assigned: {name}", talk.tried(wanted)


def configs(talk: TopicTalk) -> Told:
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
        wanted = {**topic("set"), "configs": [(key, value)]}
        yield f"{key}={value}", talk.tried(wanted)
    yield "setting and size wrong", talk.tried(topic("set", 0, no_such_key="1"))
    yield "name and setting wrong", talk.tried(topic("a b", no_such_key="1"))
    lags = topic("set", min_compaction_lag_ms="10", max_compaction_lag_ms="5")
    yield "lags that contradict", talk.tried(lags)
    local = topic("set", retention_ms="5", local_retention_ms="10")
    yield "local retention beyond retention", talk.tried(local)
    doubled = {**topic("set"), "configs": [("retention.ms", "5"), ("retention.ms", "6")]}
    yield "one key twice", talk.tried(doubled)


def deletions(talk: TopicTalk) -> Told:
    def deleted(*states: tuple[str | None, UUID], version: int = 6) -> Any:
        names = [name for name, _ in states if name is not None]
        fields = {"topics": states, "topic_names": names, "timeout_ms": 10_000}
        return sorted(talk.ask("DeleteTopics", version, f"responses({_ERROR})", **fields), key=repr)

    talk.created(topic("doomed"), topic("doomed2"), topic("doomed3"))
    doomed, doomed2 = talk.id_of("doomed"), talk.id_of("doomed2")
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
    talk.gone("doomed")
    yield "again", deleted(("doomed", NO_ID))
    yield "by its old id", deleted((None, doomed))
    yield "by id", deleted((None, doomed2))
    yield "none", deleted()
    yield "an old version", deleted(("doomed3", NO_ID), version=1)
    yield "made again", talk.created(topic("doomed"))
    yield "with another id", talk.id_of("doomed") != doomed


def partitions(talk: TopicTalk) -> Told:
    def grown(
        name: str,
        count: int,
        *assignments: Sequence[int],
        version: int = 3,
        validate_only: bool = True,
        twice: bool = False,
    ) -> Any:
        wanted = (name, count, [(ids,) for ids in assignments] or None)
        fields = {"topics": [wanted] * (1 + twice), "timeout_ms": 10_000, "validate_only": validate_only}
        return talk.ask("CreatePartitions", version, f"results({_ERROR})", **fields)

    talk.created(topic("grown", 2))
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
    talk.seen("grown", 4)
    yield "seen", talk.metadata("grown")


def records(talk: TopicTalk) -> Told:
    def cut(name: str, offset: int, partition: int = 0, version: int = 2) -> Any:
        shape = "topics/partitions(name partition_index low_watermark error_code)"
        topics = one_partition(name, partition, offset=offset)
        return talk.ask("DeleteRecords", version, shape, topics=topics, timeout_ms=10_000)

    talk.created(topic("cut"), topic("kept", cleanup_policy="compact"), topic("both", cleanup_policy="compact,delete"))
    for name in ("cut", "kept", "both"):
        talk.produced(name, 5)
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


def descriptions(talk: TopicTalk) -> Told:
    def described(names: Sequence[str], limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
        topics = [(name,) for name in names]
        fields = {"topics": topics, "response_partition_limit": limit, "cursor": cursor}
        partition = (
            "error_code partition_index leader_id leader_epoch replica_nodes:tuple isr_nodes:tuple "
            "eligible_leader_replicas:listed last_known_elr:listed offline_replicas:tuple"
        )
        shape = (
            f"topics(error_code name topic_id:has_id is_internal partitions({partition}) topic_authorized_operations) "
            "next_cursor(topic_name partition_index)"
        )
        ways = {"has_id": _has_id, "listed": lambda ids: None if ids is None else "listed"}
        return talk.counts(talk.ask("DescribeTopicPartitions", 0, **fields), shape, **ways)

    talk.created(topic("shown.a", 3), topic("shown.b", 2), topic("shown.c"))
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
            yield f"metadata of {name!r}, version {version}", talk.metadata(name, version=version)
    unknown = {"topics": [{"name": None, "topic_id": UNKNOWN_ID}]}
    for version in (10, 11, 12, 13):
        answer = talk.ask("Metadata", version, **unknown).topics if version > 11 else []
        told = [talk.counts(entry, "error_code name topic_id:is_it", is_it=same(UNKNOWN_ID)) for entry in answer]
        yield f"metadata of an unknown id, version {version}", told
    errors, both = "topics(error_code name)", [{"name": "shown.a", "topic_id": talk.id_of("shown.a")}]
    yield "metadata by name and id", talk.ask("Metadata", 12, errors, topics=both)
    mixed = [{"name": None, "topic_id": talk.id_of("shown.a")}, {"name": "shown.b"}]
    yield "metadata of an id and a name", sorted(talk.ask("Metadata", 12, errors, topics=mixed))
    of_cluster = {"topics": [], "include_cluster_authorized_operations": True}
    yield "operations on the cluster", talk.ask("Metadata", 8, "cluster_authorized_operations", **of_cluster)
    of_topic = {"topics": [{"name": "shown.a"}], "include_topic_authorized_operations": True}
    yield "operations on a topic", talk.ask("Metadata", 12, "topics.0.topic_authorized_operations", **of_topic)
    for what, name in (("an impossible", "a b"), ("a colliding", "shown_a")):
        made = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
        yield f"auto-creation of {what} name", talk.ask("Metadata", 12, "topics.error_code", **made)


# One question after the other, each with its name.
def features(talk: TopicTalk) -> Told:  # noqa: C901
    def updated(
        *updates: tuple[str, int, int], version: int = 2, validate_only: bool = True, allow: bool = False
    ) -> Any:
        keys = [(name, level, allow, kind) for name, level, kind in updates]
        fields = {"timeout_ms": 10_000, "feature_updates": keys, "validate_only": validate_only}
        shape = "error_code error_message results(feature error_code error_message)"
        return talk.ask("UpdateFeatures", version, shape, **fields)

    def shown(version: int) -> Any:
        answer = talk.ask("ApiVersions", version, **_SOFTWARE)
        supported = talk.counts(answer, "supported_features(name min_version max_version)")
        finalized = talk.counts(answer, "finalized_features(name min_version_level max_version_level)")
        return tuple([tuple(rest) for name, *rest in found if name == _FEATURE] for found in (supported, finalized))

    def until(level: int) -> None:
        while shown(4)[1] != ([(level, level)] if level else []):
            talk.broker.let_pass(50)

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
    other = {**_SOFTWARE, "client_software_name": "a"}
    before = talk.ask("ApiVersions", 4, "finalized_features_epoch", **other)
    yield "done", updated(("transaction.version", 1, safe), validate_only=False)
    until(1)
    after = talk.ask("ApiVersions", 4, "finalized_features_epoch", **other)
    yield "the epoch has moved", after > before
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
