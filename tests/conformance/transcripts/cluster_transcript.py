"""A conversation about the cluster, and about all that one node without security has nothing behind.

Owns: the questions. An answer counts whole, but for times, sizes and ids, which no two brokers have in common.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from tests.clients.asking import Asker, Broker, Told

TOPIC = "cluster-topic"
SOME_ID = UUID(int=7)
Question = tuple[str, range, str, Mapping[str, Any]]
"""What is asked in which versions: an API and its fields."""


def conversation(broker: Broker) -> Told:
    """Every question in every version of it, and the answer; `broker` must be fresh."""
    asker = Asker(broker)
    asker.create(TOPIC, 2)
    # Kafka's broker learns of a topic a moment after its controller.
    asker.until(lambda found: len(found) == 2, "DescribeLogDirs", 4, "results/topics/partitions", topics=_DIRS)
    for part in (cluster, leaders, without_security, quotas, scram, without_peers, without_share_groups, transactions):
        yield from _asked(asker, part.__name__, part())
    yield from _asked(asker, "moves_within", _moves_within(asker))
    asker.ask("FindCoordinator", 4, coordinator_keys=["group"])
    asker.until(lambda error: error == "NONE", "DescribeGroups", 5, "groups.0.error_code", groups=["group"])
    yield from _asked(asker, "groups", groups())


def _asked(asker: Asker, part: str, questions: Iterator[Question]) -> Told:
    for question, versions, api, fields in questions:
        for version in versions:
            what = question if part == "moves_within" else f"{question}, version {version}"
            yield f"{part}: {what}", _shown(asker.ask(api, version, **fields))


def _moves_within(asker: Asker) -> Iterator[Question]:
    """Moves to the directory where everything is already, under the name that the broker gives it."""
    path = asker.ask("DescribeLogDirs", 4, "results.0.log_dir", topics=[])
    for name, index in ((TOPIC, 0), (TOPIC, 7), ("nowhere", 0)):
        yield f"{name}-{index}", range(2, 3), "AlterReplicaLogDirs", {"dirs": [(path, [(name, [index])])]}


_VOLATILE = re.compile(
    r"(throttle_time_ms|total_bytes|usable_bytes|partition_size|port|cluster_id|log_dir|leader_epoch|high_watermark"
    r"|log_end_offset|host|last_fetch_timestamp|last_caught_up_timestamp|replica_directory_id)=(-?\d+|'[^']*'|UUID\('[^']*'\))"
)

_NOT_KAFKAS = ", leading_since_timestamp=-1, leading_reason='', rounds_behind=-1"
"""Our own tagged fields of a replica, which a broker that is alone leaves out."""
_OUR_CLUSTER = re.compile(r'the cluster id "[^"]*"')


def _shown(answer: Any) -> str:
    text = _VOLATILE.sub(r"\1=...", repr(answer).replace(_NOT_KAFKAS, ""))
    text = text.replace("name='CONTROLLER'", "name='PLAINTEXT'")
    return _OUR_CLUSTER.sub("the cluster id ...", text)


# --- the questions ----------------------------------------------------------------------------------------------------

_DIRS = [(TOPIC, [0, 1])]
_SOME = [(TOPIC, [0, 1, 7]), ("nowhere", [0])]


def cluster() -> Iterator[Question]:
    for asks in (False, True):
        fields = {"include_cluster_authorized_operations": asks}
        yield f"cluster, operations {asks}", range(3), "DescribeCluster", fields
    for endpoint in (0, 2, 3):
        yield f"endpoints of type {endpoint}", range(1, 3), "DescribeCluster", {"endpoint_type": endpoint}
    yield "fenced brokers", range(2, 3), "DescribeCluster", {"include_fenced_brokers": True}
    wanted = [(TOPIC, [0, 1, 5]), ("nowhere", [0])]
    yield "log dirs of some", range(1, 6), "DescribeLogDirs", {"topics": wanted}
    yield "log dirs of none", range(1, 6), "DescribeLogDirs", {"topics": []}
    for topic, partition in (("__cluster_metadata", 0), ("__cluster_metadata", 1), (TOPIC, 0)):
        fields = {"topics": [(topic, [{"partition_index": partition}])]}
        yield f"quorum of {topic}-{partition}", range(3), "DescribeQuorum", fields
    yield "quorum of nothing", range(3), "DescribeQuorum", {"topics": []}
    keys = {"key_type": 2, "coordinator_keys": [f"group:{SOME_ID}:0", "group"]}
    yield "coordinator of a share group", range(5, 7), "FindCoordinator", keys
    keys = {"key_type": 3, "coordinator_keys": ["group"]}
    yield "coordinator of an unknown type", range(4, 7), "FindCoordinator", keys


def leaders() -> Iterator[Question]:
    elect = "ElectLeaders"
    for kind in (0, 1):
        yield f"election {kind} of some", range(3), elect, {"election_type": kind, "topic_partitions": _SOME}
        yield f"election {kind} of all", range(3), elect, {"election_type": kind, "topic_partitions": None}
    yield "election of none", range(3), elect, {"topic_partitions": []}
    yield "election of an unknown type", range(1, 3), elect, {"election_type": 9, "topic_partitions": _SOME}
    yield "reassignments, all", range(1), "ListPartitionReassignments", {"topics": None}
    yield "reassignments, some", range(1), "ListPartitionReassignments", {"topics": [(TOPIC, [0, 9])]}
    for replicas in (None, [1], [2], [1, 2], [], [1, 1], [-1]):
        topics = [(TOPIC, [(0, replicas), (9, replicas)])]
        yield f"reassign to {replicas}", range(2), "AlterPartitionReassignments", {"topics": topics}


def without_security() -> Iterator[Question]:
    yield "sasl handshake", range(2), "SaslHandshake", {"mechanism": "PLAIN"}
    yield "sasl authenticate", range(3), "SaslAuthenticate", {"auth_bytes": b"\0user\0word"}
    every = {"resource_type_filter": 1, "operation": 1, "permission_type": 1}
    yield "describe acls", range(1, 4), "DescribeAcls", every
    rule = {"resource_type": 2, "principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}
    creations = [{**rule, "resource_name": name} for name in ("one", "two")]
    yield "create acls", range(1, 4), "CreateAcls", {"creations": creations}
    yield "delete acls", range(1, 4), "DeleteAcls", {"filters": [every, every]}
    nobody = {"owner_principal_type": None, "owner_principal_name": None}
    yield "create token", range(3, 4), "CreateDelegationToken", {**nobody, "max_lifetime_ms": -1}
    yield "create token", range(1, 3), "CreateDelegationToken", {"max_lifetime_ms": -1}
    yield "renew token", range(1, 3), "RenewDelegationToken", {"hmac": b"h", "renew_period_ms": 1}
    yield "expire token", range(1, 3), "ExpireDelegationToken", {"hmac": b"h", "expiry_time_period_ms": 1}
    yield "describe tokens", range(1, 4), "DescribeDelegationToken", {"owners": None}


def quotas() -> Iterator[Question]:
    """Kafka does set a quota, so only what it refuses is asked, and what changes nothing."""
    for components in (
        [],
        [("user", 0, "x")],
        [("user", 0, None)],
        [("user", 1, None)],
        [("user", 1, "x")],
        [("user", 2, None)],
        [("user", 2, "x")],
        [("user", 7, "x")],
        [("user", 0, "x"), ("user", 7, None)],
        [("user", 0, "x"), ("client-id", 2, None)],
        [("ip", 0, "10.0.0.1"), ("user", 0, "x")],
        [("planet", 7, None)],
        [("", 0, "x")],
    ):
        yield f"describe {components}", range(2), "DescribeClientQuotas", {"components": components}
    rate, set_rate = ("producer_byte_rate", 0.0, True), ("producer_byte_rate", 5.0, False)
    entities: Sequence[tuple[Mapping[str, str | None], Sequence[tuple[str, float, bool]]]] = (
        ({"user": "u"}, [rate]),
        ({"user": None}, [rate]),
        ({"user": "u", "client-id": "c"}, [rate]),
        ({"ip": "10.0.0.1"}, [("connection_creation_rate", 0.0, True)]),
        ({"user": "u"}, []),
        ({"user": "u"}, [("nonsense", 0.0, True)]),
        ({"user": "u"}, [rate, rate]),
        ({"user": "u"}, [rate, set_rate]),
        ({"user": ""}, [rate]),
        ({"client-id": ""}, [set_rate]),
        ({"user": "u", "planet": "p"}, [set_rate]),
        ({"user": "u", "ip": "10.0.0.1"}, [rate]),
        ({}, [set_rate]),
    )
    for entity, operations in entities:
        entry = (list(entity.items()), operations)
        yield f"alter {entity} by {operations}", range(2), "AlterClientQuotas", {"entries": [entry]}
        if operations == [rate]:
            yield f"alter {entity} twice by {operations}", range(2), "AlterClientQuotas", {"entries": [entry, entry]}


def scram() -> Iterator[Question]:
    """Refused changes, then users that are added, changed and deleted; their descriptions would race with Kafka's
    controller.
    """
    for users, what in (([("user",)], "one"), ([("user",)] * 2, "one twice"), (None, "all")):
        yield f"describe {what}", range(1), "DescribeUserScramCredentials", {"users": users}
    for deleted, upserted in (
        ([("user", 1)], []),
        ([("user", 1), ("user", 2)], []),
        ([("user", 9)], []),
        ([("", 1)], []),
        ([("user", 1)], [("user", 1, 8192)]),
        ([], [("user", 1, 8192), ("user", 2, 8192)]),
        ([], [("", 1, 8192)]),
        ([], [("user", 0, 8192)]),
        ([], [("user", 3, 1)]),
        ([], [("user", 1, 4095)]),
        ([], [("user", 2, 16385)]),
        ([], [("other", 2, 16384), ("kept", 1, 4096)]),
        ([("kept", 1)], [("kept", 1, 8192)]),
        ([("kept", 1)], [("kept", 2, 8192)]),
        ([("kept", 1), ("kept", 1)], []),
        ([], [("kept", 1, 4096), ("", 1, 4096)]),
        ([("kept", 1)], [("other", 1, 4096)]),
        ([("kept", 1), ("other", 1)], []),
        ([("other", 2), ("other", 1)], []),
        ([("kept", 2)], []),
    ):
        changes = [(*each, b"salt", b"password") for each in upserted]
        fields = {"deletions": deleted, "upsertions": changes}
        yield f"delete {deleted}, change {upserted}", range(1), "AlterUserScramCredentials", fields


def without_peers() -> Iterator[Question]:
    elsewhere = {"dirs": [("/nowhere", [(TOPIC, [0]), ("nowhere", [0])])]}
    yield "move to another directory", range(1, 3), "AlterReplicaLogDirs", elsewhere
    yield "unregister another broker", range(1), "UnregisterBroker", {"broker_id": 9}
    for cluster_id, voter_id, directory_id in (
        (None, 9, SOME_ID),
        ("other", 9, SOME_ID),
        ("", 9, SOME_ID),
        ("other", -1, SOME_ID),
        (None, -1, SOME_ID),
        (None, 1, UUID(int=0)),
    ):
        what = f"voter {voter_id} in {directory_id} of {cluster_id}"
        voter = {"cluster_id": cluster_id, "voter_id": voter_id, "voter_directory_id": directory_id}
        listeners = [("CONTROLLER", "controller.example", 9093)]
        yield f"add {what}", range(2), "AddRaftVoter", {**voter, "timeout_ms": 1_000, "listeners": listeners}
        yield f"remove {what}", range(1), "RemoveRaftVoter", voter


def without_share_groups() -> Iterator[Question]:
    member = {"group_id": "share", "member_id": "m"}
    joins = {**member, "member_epoch": 0, "subscribed_topic_names": [TOPIC]}
    yield "heartbeat", range(1, 2), "ShareGroupHeartbeat", joins
    yield "describe", range(1, 2), "ShareGroupDescribe", {"group_ids": ["share", "other"]}
    yield "fetch", range(1, 3), "ShareFetch", {**member, "max_wait_ms": 0}
    yield "acknowledge", range(1, 3), "ShareAcknowledge", {**member, "share_session_epoch": 1}
    wanted = {"groups": [("share", [{"topic_name": TOPIC, "partitions": [0]}])]}
    yield "describe offsets", range(2), "DescribeShareGroupOffsets", wanted
    altered = {"group_id": "share", "topics": [(TOPIC, [{"partition_index": 0, "start_offset": 1}])]}
    yield "alter offsets", range(1), "AlterShareGroupOffsets", altered
    deleted = {"group_id": "share", "topics": [{"topic_name": TOPIC}]}
    yield "delete offsets", range(1), "DeleteShareGroupOffsets", deleted
    state = {"group_id": "share", "topics": [{"topic_id": SOME_ID, "partitions": [{}]}]}
    yield "initialize state", range(1), "InitializeShareGroupState", state
    yield "read state", range(1), "ReadShareGroupState", state
    yield "write state", range(2), "WriteShareGroupState", state
    yield "delete state", range(1), "DeleteShareGroupState", state
    yield "read summary", range(2), "ReadShareGroupStateSummary", state
    member = {"group_id": "streams", "member_id": "m"}
    yield "streams heartbeat", range(1), "StreamsGroupHeartbeat", {**member, "member_epoch": 0}
    yield "streams describe", range(1), "StreamsGroupDescribe", {"group_ids": ["streams"]}


def groups() -> Iterator[Question]:
    for asks in (False, True):
        fields = {"groups": ["group"], "include_authorized_operations": asks}
        yield f"one that is not there, operations {asks}", range(3, 7), "DescribeGroups", fields


def transactions() -> Iterator[Question]:
    for pattern in (None, "", "a.*", "(", "(?=a)", "(a)\\1"):
        yield f"list by pattern {pattern}", range(2, 3), "ListTransactions", {"transactional_id_pattern": pattern}


FEATURES_OFF = ("share.version=0", "streams.version=0")
"""The features with which Kafka is formatted for the recording."""
