"""A broker in memory whose every API has a sensible request, made of its schema.

Owns: the values of the fields of those requests, one set of names for each story, what a client learns from answers,
and what must hold of every answer: it comes, the connection stays open, and no handler has raised. Does not own: which
requests are asked (`edges`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from oncelog.broker.apis.descriptor import Api
from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.coordinator.share.values import topic_id_text
from oncelog.broker.requests.context import Peer
from oncelog.broker.security.principal import Principal
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from oncelog.protocol.schema import ArrayOf, Field, Structure, attribute
from oncelog.protocol.types import Primitive
from tests.fakes.broker import HOST, PORT, VirtualBroker
from tests.fuzz.batches import NOW_MS
from tests.fuzz.conversation import Wrong
from tests.fuzz.requests import request_schema
from tests.support.requests.messages import generated

TOPIC = "edges"
BY_NAME = {api.name: api for api in API_TABLE.values()}
SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:edges",
    "delegation.token.secret.key=secret",
    "group.initial.rebalance.delay.ms=0",
    "group.share.assignment.interval.ms=0",
    "share.coordinator.state.topic.num.partitions=1",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
)
_READS = ("describe_", "list_", "offset_fetch", "offset_for_", "read_", "find_coordinator", "metadata", "fetch")
READERS = tuple(api for api in API_TABLE.values() if api.name.startswith(_READS) or api.name.endswith("_describe"))
_HELD_FOR_S = 4
_NO_TOPIC = UUID(int=0)

Path = tuple[str, ...]
"""The names of fields, from a message down to one in it."""
Values = Mapping[str, Any]
"""Values by "Structure.field" or by a field's name; a function is called with the scene."""

# The sensible values of fields, by structure or API and by name; a function of the scene where it depends on that. For
# all others the schema's default is one, and an array has one element.
_VALUES: Mapping[str, Any] = {
    "acks": -1,
    "acknowledge_types": [1],
    "broker_id": 7,
    "broker_ids": [1],
    "client_software_name": "edges",
    "client_software_version": "1",
    "cluster_id": None,
    "committed": True,
    "configuration_keys": None,
    "coordinator_keys": lambda scene: [scene.group],
    "count": 2,
    "current_leader_epoch": -1,
    "deletions": [],
    "entity_name": "edges",
    "entity_type": "user",
    "feature": "transaction.version",
    "first_offset": 0,
    "forgotten_topics_data": [],
    "generation_id": lambda scene: scene.generation_id,
    "generation_id_or_member_epoch": -1,
    "group_id": lambda scene: scene.group,
    "group_ids": lambda scene: [scene.group],
    "groups_names": lambda scene: [scene.group],
    "hmac": lambda scene: scene.hmac,
    "host": "*",
    "iterations": 4_096,
    "key": lambda scene: scene.group,
    "match": "edges",
    "max_bytes": 1 << 20,
    "max_lifetime_ms": 60_000,
    "max_records": 100,
    "max_version_level": 2,
    "mechanism": 1,
    "member_id": lambda scene: scene.member_id,
    "name": TOPIC,
    "num_partitions": 1,
    "operation": 3,
    "partition_max_bytes": 1 << 20,
    "pattern_type_filter": 1,
    "permission_type": 3,
    "principal": "User:edges",
    "principal_name": "edges",
    "principal_type": "User",
    "process_id": "process",
    "producer_epoch": lambda scene: scene.producer_epoch,
    "producer_id": lambda scene: scene.producer_id,
    "protocol_name": "range",
    "protocol_type": "consumer",
    "rebalance_timeout_ms": 60_000,
    "records": lambda scene: scene.records(),
    "replica_id": -1,
    "replicas": [1],
    "replication_factor": 1,
    "resource_name": TOPIC,
    "resource_pattern_type": 3,
    "resource_type": 2,
    "resource_type_filter": 1,
    "salt": b"salt",
    "salted_password": bytes(32),
    "session_timeout_ms": 10_000,
    "state_epoch": 0,
    "states_filter": [],
    "subscribed_topic_names": [TOPIC],
    "subtopology_id": "0",
    "source_topics": [TOPIC],
    "timeout_ms": 10_000,
    "topic": TOPIC,
    "topic_id": lambda scene: scene.topic_id,
    "topic_name": TOPIC,
    "topic_names": lambda scene: [scene.new_topic],
    "transaction_result": True,
    "transaction_timeout_ms": 60_000,
    "transactional_id": lambda scene: scene.transactional_id,
    "transactional_ids": lambda scene: [scene.transactional_id],
    "transactional_id_pattern": None,
    "types_filter": [],
    "upgrade_type": 1,
    "v3_and_below_producer_epoch": lambda scene: scene.producer_epoch,
    "v3_and_below_producer_id": lambda scene: scene.producer_id,
    "v3_and_below_transactional_id": lambda scene: scene.transactional_id,
    "value": "1",
}
_VALUES_OF: Mapping[str, Any] = {
    "CreatableTopic.assignments": [],
    "CreatableTopic.configs": [],
    "FetchPartition.acknowledgement_batches": [],
    "StreamsGroupHeartbeatRequest.active_tasks": [],
    "StreamsGroupHeartbeatRequest.client_tags": [],
    "StreamsGroupHeartbeatRequest.standby_tasks": [],
    "StreamsGroupHeartbeatRequest.task_end_offsets": None,
    "StreamsGroupHeartbeatRequest.task_offsets": None,
    "ListConfigResourcesRequest.resource_types": [],
    "StreamsGroupHeartbeatRequest.user_endpoint": None,
    "StreamsGroupHeartbeatRequest.warmup_tasks": [],
    "Subtopology.copartition_groups": [],
    "Subtopology.repartition_sink_topics": [],
    "Subtopology.repartition_source_topics": [],
    "Subtopology.source_topic_regex": [],
    "Subtopology.state_changelog_topics": [],
    "TopicInfo.topic_configs": [],
    "AlterableConfig.name": "segment.index.bytes",
    "AlterableConfig.value": "1000000",
    "CopartitionGroup.source_topics": [0],
    "CreatableTopic.name": lambda scene: scene.new_topic,
    "CreatePartitionsTopic.assignments": None,
    "CreatePartitionsTopic.name": lambda scene: scene.new_topic,
    "DeleteTopicState.name": lambda scene: scene.new_topic,
    "DeleteTopicState.topic_id": _NO_TOPIC,
    "DescribeGroupsRequest.groups": lambda scene: [scene.group],
    "JoinGroupRequestProtocol.name": "range",
    "ListTransactionsRequest.producer_id_filters": [],
    "ListTransactionsRequest.state_filters": [],
    "MetadataRequestTopic.topic_id": _NO_TOPIC,
    "OffsetFetchRequestGroup.member_epoch": -1,
    "OpData.key": "producer_byte_rate",
    "OpData.value": 1e6,
    "ScramCredentialUpsertion.name": "edges",
    "ShareAcknowledgeRequest.share_session_epoch": 1,
    "PartitionData.delivery_complete_count": 0,
    "StateBatch.delivery_count": 1,
    "TxnOffsetCommitRequest.generation_id": -1,
    "TxnOffsetCommitRequest.member_id": "",
    "OffsetCommitRequest.member_id": "",
    "UserName.name": "edges",
    "ConsumerGroupHeartbeatRequest.topic_partitions": [],
    "ConsumerGroupHeartbeatRequest.member_id": lambda scene: scene.own_member_id,
    "ShareGroupHeartbeatRequest.member_id": lambda scene: scene.own_member_id,
    "StreamsGroupHeartbeatRequest.member_id": lambda scene: scene.own_member_id,
    "InitProducerIdRequest.producer_id": -1,
    "InitProducerIdRequest.producer_epoch": -1,
    "WritableTxnMarker.transaction_version": 0,
}


# Of which number, by API and field, and why the answer is UNKNOWN_SERVER_ERROR, as Kafka's is.
UNKNOWN_AS_IN_KAFKA = {
    ("alter_share_group_offsets", "partition_index"): "a partition below zero",
    ("describe_share_group_offsets", "partitions"): "a partition below zero",
    ("share_fetch", "share_acquire_mode"): "a mode that does not exist",
}
# Which connection is closed, by API and by a part of the reason, as Kafka closes it.
CLOSED_AS_IN_KAFKA = {
    ("create_acls", "without"),
    ("delete_acls", "without"),
    ("describe_acls", "without"),
}


@dataclass(frozen=True, slots=True)
class Step:
    """A request: the base message of an API, in its newest version if none is given, with other values of some fields;
    `value` is that of the field at `path`."""

    api: str
    values: Values = field(default_factory=dict)
    version: int | None = None
    path: Path = ()
    value: int | float = 0


@dataclass(slots=True)
class Scene:
    """The broker, with a topic that has a record, and the names of one story, which shares none with another."""

    virtual: VirtualBroker
    number: int = 0
    topic_id: UUID = _NO_TOPIC
    new_topic_id: UUID = _NO_TOPIC
    hmac: bytes = b""
    member_id: str = ""
    member_epoch: int = 0
    generation_id: int = -1
    producer_id: int = -1
    producer_epoch: int = -1

    @classmethod
    def start(cls) -> "Scene":
        scene = cls(VirtualBroker(*SETTINGS))
        scene.ask(Step("create_topics"))
        scene.topic_id = scene.new_topic_id
        scene.ask(Step("create_topics", {"CreatableTopic.name": TOPIC}))
        scene.topic_id = scene.new_topic_id
        scene.ask(Step("produce"))
        of_share = f"{scene.group}:{topic_id_text(scene.topic_id)}:0"
        for key_type, key in ((0, scene.group), (1, scene.transactional_id), (2, of_share)):
            scene.ask(Step("find_coordinator", {"key_type": key_type, "coordinator_keys": [key]}))
        scene.let_pass(1_000)
        return scene

    def begin(self) -> None:
        """Begin a story with names of its own."""
        self.number += 1
        self.member_id, self.member_epoch, self.generation_id = "", 0, -1
        self.producer_id, self.producer_epoch = -1, -1

    group = property(lambda self: f"group-{self.number}")
    own_member_id = property(lambda self: f"{self.number:022d}")
    transactional_id = property(lambda self: f"transaction-{self.number}")
    new_topic = property(lambda self: f"new-{self.number}")

    def records(self) -> bytes:
        return encode_batch([Record(0, NOW_MS, b"key", b"value")])

    def read(self) -> None:
        """Every API that reads is asked, in its newest and oldest version, for what has the names of this story."""
        for api in READERS:
            for version in {api.maximum, api.minimum}:
                self.ask(Step(api.name, version=version))

    def stop(self) -> None:
        """kill -9, and the next start replays what is stored."""
        self.virtual = self.virtual.killed()
        self._check("the start")

    def let_pass(self, delay_ms: int) -> None:
        """Let time pass, with a background turn in the end, as the daemon has one a second."""
        self.virtual.let_pass(delay_ms)
        broker = self.virtual.broker
        for part in (
            broker.logs,
            broker.transactions,
            broker.known_groups,
            broker.shares_when_needed.known,
            broker.tokens,
        ):
            if part is not None:
                part.step()
        self.virtual.time.settle()
        self._check(f"{delay_ms} ms")

    def ask(self, step: Step) -> Any:
        """The answer; None if the request is held, has none, or is refused as Kafka refuses it."""
        api = BY_NAME[step.api]
        version = api.maximum if step.version is None else step.version
        request = _Maker(self, api, version, step).message()
        peer = Peer(HOST, PORT, "PLAINTEXT", (HOST, PORT))
        peer.principal = Principal("User", "edges")
        reply = self.virtual.take(self.virtual.frame(request, version), request, version, peer=peer)
        self.virtual.time.settle()
        for _ in range(_HELD_FOR_S):
            if not reply.is_there:
                self.virtual.let_pass(1_000)
        what = f"{api.name} {version}: {request}"
        self._check(what)
        if reply.is_closed:
            if any(name == api.name and part in reply.reason for name, part in CLOSED_AS_IN_KAFKA):
                return None
            raise Wrong(f"the connection was closed: {reply.reason}: {what}")
        if not reply.is_there or (step.api == "produce" and not request.acks):
            return None
        answer = reply.message
        as_in_kafka = (api.name, step.path[-1] if step.path else "") in UNKNOWN_AS_IN_KAFKA
        if ErrorCode.UNKNOWN_SERVER_ERROR in errors_of(answer) and not as_in_kafka:
            raise Wrong(f"{answer} to {what}")
        self._learn(answer)
        return answer

    def _check(self, what: str) -> None:
        for event in self.virtual.warnings:
            if isinstance(error := event.get("exc_info"), BaseException):
                raise Wrong(what) from error

    def _learn(self, answer: Any) -> None:
        for name in ("hmac", "member_id", "member_epoch", "generation_id"):
            if value := getattr(answer, name, None):
                setattr(self, name, value)
        if getattr(answer, "producer_epoch", -1) >= 0:
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        if type(answer).__name__ == "CreateTopicsResponse":
            self.new_topic_id = answer.topics[0].topic_id


def errors_of(answer: Any) -> set[int]:
    """The error codes anywhere in an answer."""
    found: set[int] = set()
    for name in answer.FIELDS:
        value = getattr(answer, name)
        if name.endswith("error_code"):
            found.add(value)
        for item in value if isinstance(value, list | tuple) else (value,):
            if hasattr(item, "FIELDS"):
                found |= errors_of(item)
    return found


class _Maker:
    """The message of one step."""

    def __init__(self, scene: Scene, api: Api, version: int, step: Step) -> None:
        self._scene = scene
        self._schema = request_schema(api)
        self._version = version
        self._step = step
        self._module = generated(self._schema)

    def message(self) -> Any:
        return self._structure(self._schema.structure, self._step.path)

    def _structure(self, structure: Structure, path: Path | None) -> Any:
        """`path` leads from here to the number of the step; None: it is not in here."""
        values = {}
        for each in structure.fields:
            if each.in_version(self._version):
                below = path[1:] if path and path[0] == each.name else None
                values[attribute(each.name)] = self._field(structure, each, below)
        return getattr(self._module, structure.name)(**values)

    def _field(self, owner: Structure, each: Field, below: Path | None) -> Any:
        if below is None:
            for table, name in (
                (self._step.values, f"{owner.name}.{each.name}"),
                (self._step.values, each.name),
                (_VALUES_OF, f"{owner.name}.{each.name}"),
                (_VALUES, each.name),
            ):
                if name in table:
                    value = table[name]
                    return value(self._scene) if callable(value) else value
        kind, is_array = each.type, isinstance(each.type, ArrayOf)
        while isinstance(kind, ArrayOf):
            kind = kind.element
        if below == ():
            value = self._step.value
        elif isinstance(kind, Structure):
            value = self._structure(kind, below)
        elif is_array:
            value = 0 if isinstance(kind, Primitive) else ""
        else:
            value = each.default_value
        return [value] if is_array else value
