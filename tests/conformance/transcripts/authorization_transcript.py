"""A conversation of two clients with a broker whose authorizer is switched on: one may do everything and gives and
takes rights, the other, with no right, and then with each single one, sends every request in every version.

Owns: the requests, and what counts of an answer: that it was allowed and, where it was not, the whole denied part.
The two differ only in their address, since both are User:ANONYMOUS. Rights are given on what is named GIVEN; every
request names something else besides, on which the second client never has any.
"""

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from oncelog.broker.apis.table import API_TABLE
from oncelog.protocol.acls import CLUSTER_NAME, OPERATIONS, Acl, AclOperation, PatternType, Permission, ResourceType
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.message import Message
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from tests.clients.asking import NO_ID, Told, batch, one_partition, request

GIVEN, OTHER, ABSENT = "given", "other", "absent"
"""Names of topics, groups and transactional ids alike."""
NODE, ADMIN, CLIENT = "127.0.0.1", "127.0.0.2", "127.0.0.3"
SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",
)
"""Settings that let every user write rules until the first rules exist."""
_PAUSE_MS = 400
"""Kafka's broker learns of a rule a little after its controller."""
_DENIALS = frozenset(code for code in ErrorCode if code.name.endswith("AUTHORIZATION_FAILED"))
_REQUEST_TEXT = re.compile(r"Request Request\(.*?\) needs")
_MEMORY = re.compile(r"<memory at 0x[0-9a-f]+>")
_SOME_ID = re.compile(r"(name='absent', topic_id=)UUID\('[0-9a-f-]+'\)")


class TwoClients(Protocol):
    def ask(self, request: Message, version: int, source: str) -> Any:
        """The answer to a client at this address; None if the connection is closed instead."""

    def let_pass(self, delay_ms: int) -> None: ...


class Question(NamedTuple):
    text: str
    asked: Any
    version: int
    shows: bool = False
    """Whether the content of an allowed answer depends on rights, too."""


# --- rights -----------------------------------------------------------------------------------------------------------

Right = tuple[AclOperation, ResourceType]
RIGHTS: tuple[Right | None, ...] = (
    None,
    *((operation, kind) for kind, operations in OPERATIONS.items() if kind <= 5 for operation in operations),
)
"""Each single one, and none."""
_GIVEN_ON = {
    ResourceType.TOPIC: (GIVEN, "deleted"),
    ResourceType.GROUP: (GIVEN, "watchers"),
    ResourceType.CLUSTER: (CLUSTER_NAME,),
    ResourceType.TRANSACTIONAL_ID: (GIVEN,),
}


def _acl(operation: AclOperation, kind: int, name: str, host: str) -> Acl:
    return Acl(kind, name, PatternType.LITERAL, "User:*", host, operation, Permission.ALLOW)


def create(acls: list[Acl]) -> Message:
    creations = [
        {
            "resource_type": acl.resource_type,
            "resource_name": acl.resource_name,
            "resource_pattern_type": acl.pattern_type,
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation,
            "permission_type": acl.permission,
        }
        for acl in acls
    ]
    made: Message = request("CreateAcls", creations=creations)
    return made


def _delete_of_client() -> Any:
    everything = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    of_client = {"resource_name_filter": None, "principal_filter": None, "host_filter": CLIENT}
    return request("DeleteAcls", filters=[{**everything, **of_client}])


def _name_of(right: Right | None) -> str:
    return "nothing" if right is None else f"{right[0].name} {right[1].name}"


# --- the conversation -------------------------------------------------------------------------------------------------


def conversation(broker: TwoClients) -> Told:
    """Yield each question with its answers, each with the versions in which and the rights with which it is given."""
    ids = _prepare(broker)
    found: dict[str, dict[str, dict[int, str]]] = {}
    for right in RIGHTS:
        if right is not None:
            broker.ask(create([_acl(*right, name, CLIENT) for name in _GIVEN_ON[right[1]]]), 3, ADMIN)
        _keep_groups(broker)
        broker.let_pass(_PAUSE_MS)
        for question in questions(ids, right):
            if question.text.startswith("DELETE_TOPICS"):
                _create_topics(broker)
            response = broker.ask(question.asked, question.version, CLIENT)
            answers = found.setdefault(question.text, {})
            answers.setdefault(_name_of(right), {})[question.version] = told(response, ids, question.shows)
        broker.ask(_delete_of_client(), 3, ADMIN)
    for text, by_right in found.items():
        yield text, _summary(by_right)


def _summary(by_right: dict[str, dict[int, str]]) -> list[str]:
    """A line for each answer: versions, rights, answer. The rights of the most frequent one are `else`."""
    versions: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for version in sorted({version for answers in by_right.values() for version in answers}):
        said = tuple((right, answers[version]) for right, answers in by_right.items() if version in answers)
        versions.setdefault(said, []).append(version)
    lines = []
    for said, which in versions.items():
        rights: dict[str, list[str]] = {}
        for right, answer in said:
            rights.setdefault(answer, []).append(right)
        usual = max(rights.values(), key=len)
        for answer, given in rights.items():
            lines.append(f"v{which[0]}-{which[-1]}, {'else' if given is usual else ', '.join(given)}: {answer}")
    return lines


def _prepare(broker: TwoClients) -> dict[str, UUID]:
    kinds = [(kind, CLUSTER_NAME if kind == ResourceType.CLUSTER else "*") for kind in OPERATIONS]
    rules = [_acl(AclOperation.ALL, kind, name, host) for kind, name in kinds for host in (NODE, ADMIN)]
    broker.ask(create(rules), 3, ADMIN)
    broker.let_pass(_PAUSE_MS)
    _create_topics(broker)
    broker.let_pass(_PAUSE_MS)
    for key_type in (0, 1):
        broker.ask(request("FindCoordinator", key_type=key_type, coordinator_keys=[GIVEN]), 4, ADMIN)
    broker.let_pass(5 * _PAUSE_MS)
    for name in (GIVEN, OTHER):
        broker.ask(request("InitProducerId", transactional_id=name, transaction_timeout_ms=60_000), 4, ADMIN)
    described = broker.ask(request("Metadata", topics=[{"name": GIVEN}, {"name": OTHER}]), 12, ADMIN)
    return {topic.name: topic.topic_id for topic in described.topics}


def _create_topics(broker: TwoClients) -> None:
    topics = [(name, 1, 1) for name in (GIVEN, OTHER, "deleted")]
    broker.ask(request("CreateTopics", topics=topics, timeout_ms=5_000), 7, ADMIN)


def _keep_groups(broker: TwoClients) -> None:
    """Topics, offsets of two groups, and a member of a consumer group that reads both topics: what the last round may
    have deleted."""
    _create_topics(broker)
    topics = [of for topic in (GIVEN, OTHER) for of in one_partition(topic, committed_offset=1)]
    for name in (GIVEN, OTHER):
        commit = request("OffsetCommit", group_id=name, generation_id_or_member_epoch=-1, topics=topics)
        broker.ask(commit, 8, ADMIN)
    joins = request(
        "ConsumerGroupHeartbeat",
        group_id="watchers",
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=5_000,
        subscribed_topic_names=[GIVEN, OTHER],
        topic_partitions=(),
    )
    broker.ask(joins, 1, ADMIN)


# --- answers ----------------------------------------------------------------------------------------------------------


def told(response: Any, ids: dict[str, UUID], shows: bool) -> str:
    """Return the part of an answer that is compared."""
    if response is None:
        return "closed"
    if not shows and not _is_denied(response):
        return "allowed"
    return str(_part(response, ids))


def _is_denied(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_denied, value))
    if not isinstance(value, Message):
        return False
    return _has_denial(value) or any(_is_denied(getattr(value, name)) for name in value.FIELDS)


def _has_denial(message: Message) -> bool:
    return any(name.endswith("error_code") and getattr(message, name) in _DENIALS for name in message.FIELDS)


def _part(value: Any, ids: dict[str, UUID]) -> Any:
    """Denied rows as they are; of others their names and operations. In order, for brokers have none."""
    if isinstance(value, list | tuple):
        return sorted((_part(each, ids) for each in value), key=str)
    if _has_denial(value):
        return _written(value, ids)
    parts: dict[str, Any] = {}
    for name in value.FIELDS:
        field = getattr(value, name)
        if (name.endswith("authorized_operations") and field >= 0) or name in (*_NAMING, "resource_name"):
            parts[name] = field
        elif isinstance(field, list | tuple) and field and isinstance(field[0], Message):
            rows = _part(field, ids)
            if any(rows):
                parts[name] = rows
    return parts


def _written(denied: Message, ids: dict[str, UUID]) -> str:
    """Write an answer without what differs between brokers: ids of topics, addresses, Kafka's description of a
    request.
    """
    text = _MEMORY.sub("records", _REQUEST_TEXT.sub("Request needs", repr(denied)))
    for name, topic_id in ids.items():
        text = text.replace(repr(topic_id), f"id of {name}")
    return _SOME_ID.sub(r"\1any", text)


# --- questions --------------------------------------------------------------------------------------------------------


class Variant(NamedTuple):
    """A way to ask: its fields by name, wherever they are."""

    name: str = ""
    fields: Mapping[str, Any] = MappingProxyType({})
    since: int = 0
    until: int = 99
    shows: bool = False


def questions(ids: dict[str, UUID], right: Right | None) -> Iterator[Question]:
    for api in API_TABLE.values():
        schema: Schema = getattr(import_module(f"oncelog.protocol.messages.{api.name}"), f"{api.name}_request".upper())
        variants = _VARIANTS.get(api.key, (Variant(),))
        for version in range(api.minimum, api.maximum + 1):
            for variant in variants:
                fields = {**_FIELDS.get(api.key, {}), **variant.fields}
                is_deadly = variant.name == "by id" and right is not None and right[0] is AclOperation.DELETE
                if variant.since <= version <= variant.until and not (api.key is ApiKey.DELETE_TOPICS and is_deadly):
                    filled = _Filling(version, fields, ids).structure(schema.structure, GIVEN)
                    asked = request(api.name, **filled)
                    yield Question(f"{api.key.name} {variant.name}".strip(), asked, version, variant.shows)


class _Filling:
    """A request with a row for each of the two names; numbers and what may be null have their defaults."""

    def __init__(self, version: int, fields: Mapping[str, Any], ids: dict[str, UUID]) -> None:
        self._version, self._fields, self._ids = version, fields, ids

    def structure(self, structure: Structure, name: str) -> dict[str, Any]:
        values = {}
        for field in structure.fields:
            if field.in_version(self._version):
                value = self._value(field, name)
                if value is not _DEFAULT:
                    values[field.name] = value
        return values

    def _value(self, field: Field, name: str) -> Any:
        kind = field.type
        if field.name == "timeout_ms":
            return 5_000
        if field.name in self._fields:
            return self._fields[field.name]
        if field.name == "topic_id":
            return self._ids.get(name, NO_ID)
        if isinstance(kind, ArrayOf) and isinstance(kind.element, Structure):
            fields = {inner.name for inner in kind.element.fields}
            rows = (GIVEN, OTHER) if fields & {*_NAMING, "topic_id"} else (GIVEN,)
            return [self.structure(kind.element, row) for row in rows]
        if isinstance(kind, ArrayOf):
            return [GIVEN, OTHER] if field.name in _LISTS else [0] if field.name in _PARTITIONS else []
        if isinstance(kind, Structure) and not field.nullable:
            return self.structure(kind, name)
        return name if field.name in _NAMING else _DEFAULT


_DEFAULT = object()
_NAMING = ("name", "topic", "topic_name", "group_id", "transactional_id", "v3_and_below_transactional_id", "key")
_LISTS = ("groups", "groups_names", "group_ids", "transactional_ids", "coordinator_keys", "topic_names")
_PARTITIONS = ("partitions", "partition_indexes")
_NOBODY = {"member_id": "nobody", "group_instance_id": None}
_STRANGER = {"producer_id": 12_345, "producer_epoch": 0}


def _resources(*kinds: int, **others: Any) -> list[Any]:
    """Settings of both names, or of the node."""
    names = {kind: (GIVEN, OTHER) if kind in (2, 32) else ("1",) for kind in kinds}
    return [{"resource_type": kind, "resource_name": name, **others} for kind in kinds for name in names[kind]]


_FILTER = {
    "pattern_type_filter": 1,
    "resource_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
    "host_filter": None,
}
_FIELDS: dict[ApiKey, dict[str, Any]] = {
    ApiKey.PRODUCE: {"acks": 1, "timeout_ms": 1_000, "transactional_id": None, "records": batch()},
    ApiKey.FETCH: {
        "max_bytes": 1_000, "partition_max_bytes": 1_000, "session_epoch": -1, "forgotten_topics_data": (),
        "isolation_level": 0, "replica_id": -1, "current_leader_epoch": -1, "last_fetched_epoch": -1,
    },
    ApiKey.LIST_OFFSETS: {"replica_id": -1, "timestamp": -1, "current_leader_epoch": -1},
    ApiKey.OFFSET_COMMIT: {"generation_id_or_member_epoch": -1, "committed_offset": 1, "member_id": ""},
    ApiKey.JOIN_GROUP: {
        **_NOBODY, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "protocol_type": "consumer",
        "protocols": [("range", b"")],
    },
    ApiKey.HEARTBEAT: _NOBODY,
    ApiKey.LEAVE_GROUP: {**_NOBODY, "members": [{"member_id": "nobody"}]},
    ApiKey.SYNC_GROUP: {**_NOBODY, "assignments": (), "protocol_type": "consumer", "protocol_name": "range"},
    ApiKey.CREATE_TOPICS: {
        "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": (), "validate_only": True,
        "topics": [(name, 1, 1) for name in (GIVEN, OTHER, ABSENT)],
    },
    ApiKey.ADD_PARTITIONS_TO_TXN: {**_STRANGER, "v3_and_below_producer_id": 12_345},
    ApiKey.ADD_OFFSETS_TO_TXN: _STRANGER,
    ApiKey.END_TXN: _STRANGER,
    ApiKey.WRITE_TXN_MARKERS: _STRANGER,
    ApiKey.TXN_OFFSET_COMMIT: {**_STRANGER, "committed_offset": 1},
    ApiKey.DESCRIBE_ACLS: {**_FILTER, "resource_name_filter": None, "principal_filter": "User:nobody"},
    ApiKey.DELETE_ACLS: {**_FILTER, "resource_name_filter": None, "principal_filter": "User:nobody"},
    ApiKey.CREATE_ACLS: {
        "resource_type": 2, "resource_name": "acl", "resource_pattern_type": 3, "principal": "User:nobody",
        "host": "*", "operation": 3, "permission_type": 3,
    },
    ApiKey.DESCRIBE_CONFIGS: {"resources": _resources(2, 4, 8, 32, configuration_keys=["none"])},
    ApiKey.ALTER_CONFIGS: {"resources": _resources(2, 4, 32), "validate_only": True},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {"resources": _resources(2, 4, 8, 32), "validate_only": True},
    ApiKey.ALTER_REPLICA_LOG_DIRS: {"path": "/nowhere"},
    ApiKey.CREATE_PARTITIONS: {"count": 2, "assignments": None, "validate_only": True},
    ApiKey.ELECT_LEADERS: {"election_type": 0},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {"replicas": [99]},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {"components": ()},
    ApiKey.ALTER_CLIENT_QUOTAS: {
        "entity": [("user", "nobody")], "ops": (),
        "validate_only": True,
    },
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {"mechanism": 1, "upsertions": ()},
    ApiKey.UPDATE_FEATURES: {"feature_updates": (), "validate_only": True},
    ApiKey.UNREGISTER_BROKER: {"broker_id": 99},
    ApiKey.ADD_RAFT_VOTER: {"cluster_id": "another"},
    ApiKey.REMOVE_RAFT_VOTER: {"cluster_id": "another"},
    ApiKey.API_VERSIONS: {"client_software_name": "test", "client_software_version": "1"},
    ApiKey.SHARE_GROUP_HEARTBEAT: {"member_id": "nobody"},
    ApiKey.LIST_CONFIG_RESOURCES: {"resource_types": ()},
}  # fmt: skip
_ALL_TOPICS = {
    "topics": None,
    "include_topic_authorized_operations": True,
    "include_cluster_authorized_operations": True,
}
_HEARTBEAT = {"member_id": "nobody", "member_epoch": 5, "topic_partitions": None}
_STREAMS_HEARTBEAT = {
    **_HEARTBEAT,
    **dict.fromkeys(("topology", "instance_id", "rack_id", "process_id", "user_endpoint", "client_tags")),
    **dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks", "task_offsets", "task_end_offsets")),
}


def _topology(*names: str) -> dict[str, Any]:
    return {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": names}]}


_TRANSACTIONAL = batch(producer_id=12_345, producer_epoch=0, base_sequence=0, transactional=True)
_CREATING = {
    "topics": [{"name": ABSENT}],
    "allow_auto_topic_creation": True,
}
_DELETING = {
    "topic_names": ["deleted", OTHER, ABSENT],
    "topics": [{"name": name} for name in ("deleted", OTHER, ABSENT)],
}
_VARIANTS: dict[ApiKey, tuple[Variant, ...]] = {
    ApiKey.PRODUCE: (
        Variant(),
        Variant("in a transaction", {"transactional_id": GIVEN, "records": _TRANSACTIONAL}),
    ),
    ApiKey.METADATA: (
        Variant("by name", {"topic_id": NO_ID, "allow_auto_topic_creation": False}),
        Variant("by id", {"name": None}, since=12),
        Variant("of all", _ALL_TOPICS, since=1, shows=True),
        Variant("of all", {"topics": ()}, until=0, shows=True),
        Variant("creating", _CREATING, since=4),
    ),
    ApiKey.OFFSET_FETCH: (
        Variant("", {"member_id": None, "member_epoch": -1}),
        Variant("of all", {"topics": None, "member_id": None, "member_epoch": -1}, since=2, shows=True),
    ),
    ApiKey.FIND_COORDINATOR: (Variant("of a group"), Variant("of a transaction", {"key_type": 1}, since=1)),
    ApiKey.DESCRIBE_GROUPS: (Variant("", {"include_authorized_operations": True}, shows=True),),
    ApiKey.LIST_GROUPS: (Variant("", shows=True),),
    ApiKey.DELETE_TOPICS: (
        Variant("by name", _DELETING),
        Variant("by id", {"name": None}, since=6),
    ),
    ApiKey.INIT_PRODUCER_ID: (
        Variant("", {"transaction_timeout_ms": 60_000}),
        Variant("without a transaction", {"transactional_id": None, "transaction_timeout_ms": 60_000}),
    ),
    ApiKey.DESCRIBE_CLUSTER: (Variant("", {"include_cluster_authorized_operations": True}, shows=True),),
    ApiKey.LIST_TRANSACTIONS: (Variant("", {"state_filters": (), "producer_id_filters": ()}, shows=True),),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (
        Variant("", {**_HEARTBEAT, "subscribed_topic_names": None}),
        Variant("with topics", {**_HEARTBEAT, "subscribed_topic_names": [GIVEN, OTHER]}),
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (
        Variant("", {"group_ids": ["watchers", OTHER], "include_authorized_operations": True}, shows=True),
    ),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (
        Variant("", _STREAMS_HEARTBEAT),
        Variant("with topics", {**_STREAMS_HEARTBEAT, "topology": _topology(GIVEN, OTHER)}),
        Variant("with invalid topics", {**_STREAMS_HEARTBEAT, "topology": _topology(OTHER, "a b")}),
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: (
        Variant("", {"group_ids": [GIVEN, OTHER], "include_authorized_operations": True}, shows=True),
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (
        Variant("", {"cursor": None, "response_partition_limit": 100}, shows=True),
        Variant("of all", {"topics": (), "cursor": None, "response_partition_limit": 100}, shows=True),
    ),
}  # fmt: skip
