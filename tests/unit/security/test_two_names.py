"""A request that names one thing in two ways is answered by the one whose right was asked for."""

from collections.abc import Iterator
from itertools import product
from typing import Any
from uuid import UUID

import pytest

from oncelog.broker.apis.descriptor import Api
from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.security.access_rules import entry_record
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.acls import Acl, AclOperation, PatternType, Permission, ResourceType
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from oncelog.protocol.schema import ArrayOf, Structure, attribute
from oncelog.protocol.topics import ZERO_UUID
from tests.fakes.broker import VirtualBroker
from tests.fuzz.requests import request_schema
from tests.support.requests.adversary import Stored, attacks

pytestmark = pytest.mark.sampled(3)

_SETTINGS = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_ALICE, _BOB = "10.0.0.1", "10.0.0.2"
_NAMES, _IDS = ("name", "topic", "topic_name"), ("topic_id",)
_SECRET_PARTITIONS = 7
_T, _O = ResourceType, AclOperation
_RIGHTS_OF_ALICE = [
    *((_T.TOPIC, "open", operation) for operation in (_O.DESCRIBE, _O.READ, _O.WRITE, _O.DESCRIBE_CONFIGS)),
    (_T.TOPIC, "new", _O.DESCRIBE),
    (_T.GROUP, "mine", _O.READ),
    (_T.TRANSACTIONAL_ID, "mine", _O.WRITE),
]


class Scene:
    """Alice may read and write `open`; everything else is Bob's, who has a transaction on `open`."""

    def __init__(self, *settings: str) -> None:
        self.virtual = VirtualBroker(_SETTINGS, *settings, "auto.create.topics.enable=true", with_faults=False)
        rows = [(_ALICE, *row) for row in _RIGHTS_OF_ALICE]
        rows += [(_BOB, kind, "*", _O.ALL) for kind in (_T.TOPIC, _T.GROUP, _T.TRANSACTIONAL_ID)]
        for number, (host, kind, name, operation) in enumerate(rows, 1):
            acl = Acl(kind, name, PatternType.LITERAL, "User:ANONYMOUS", host, operation, Permission.ALLOW)
            self.virtual.broker.metadata.write([entry_record(UUID(int=number), acl)])
        topics = self.virtual.broker.topics
        topics.create("open", 2)
        topics.create("secret", _SECRET_PARTITIONS)
        self.virtual.time.settle()
        self.open_id, self.secret_id = topics.get("open").topic_id, topics.get("secret").topic_id
        topics.partition("secret", 0).append(memoryview(encode_batch([Record(0, 0, None, b"v")])), wall_ms=WallMs(0))
        for kind in (0, 1):
            self.ask(FindCoordinatorRequest(key="any", key_type=kind), 2, _BOB)
        self.mine, self.theirs = self._init("mine", _ALICE), self._init("theirs", _BOB)
        self.add("theirs", self.theirs, _BOB)
        assert self.produce("theirs", self.theirs, _BOB) == ErrorCode.NONE

    def ask(self, request: Any, version: int, host: str = _ALICE) -> Any:
        return self.virtual.send(request, version, host=host).message

    def _init(self, transactional_id: str, host: str) -> int:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        made = self.ask(request, 4, host)
        assert made.error_code == ErrorCode.NONE
        return int(made.producer_id)

    def add(self, transactional_id: str, producer_id: int, host: str = _ALICE) -> int:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="open", partitions=[0])],
        )
        added = self.ask(request, 3, host).results_by_topic_v3_and_below[0]
        return int(added.results_by_partition[0].partition_error_code)

    def produce(
        self, transactional_id: str, producer_id: int, host: str = _ALICE, *, sequence: int = 0, version: int = 9
    ) -> int:
        batch = encode_batch(
            [Record(0, 0, None, host.encode())],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        data = [PartitionProduceData(index=0, records=memoryview(batch))]
        topic = TopicProduceData(name="open", topic_id=self.open_id, partition_data=data)
        request = ProduceRequest(acks=-1, timeout_ms=1_000, transactional_id=transactional_id, topic_data=[topic])
        return int(self.ask(request, version, host).responses[0].partition_responses[0].error_code)

    def state(self) -> Any:
        """The state that no request of Alice's may change."""
        broker = self.virtual.broker
        secret = broker.topics.get("secret")
        return (
            sorted(topic.name for topic in broker.topics.all() if not topic.is_internal),
            secret.topic_id,
            secret.partition_count,
            [broker.topics.partition("secret", index).log_end_offset for index in range(secret.partition_count)],
            [broker.topics.partition("secret", index).log_start_offset for index in range(secret.partition_count)],
            broker.transactions.describe("theirs").result(),
        )


def _names_topics(api: Api, version: int) -> bool:
    def rows(structure: Structure) -> Iterator[Structure]:
        yield structure
        for field in (*structure.fields_in(version), *structure.tagged_in(version)):
            kind = field.type.element if isinstance(field.type, ArrayOf) else field.type
            if isinstance(kind, Structure):
                yield from rows(kind)

    structures = rows(request_schema(api).structure)
    return any(attribute(field.name) in (*_NAMES, *_IDS) for row in structures for field in row.fields_in(version))


_WITH_TOPICS = [
    (api, version)
    for api in API_TABLE.values()
    for version in range(api.minimum, api.maximum + 1)
    if api.rights.all and _names_topics(api, version)
]
_A_SAMPLE = [
    pytest.param(api, version, marks=[pytest.mark.slow] if version < api.maximum else [])
    for api, version in _WITH_TOPICS
]


def _mixed(scene: Scene, api: Api, version: int) -> Iterator[Any]:
    """Requests with one and two rows of every pair of a name and an id; a group and an id of Alice's."""
    names = ("open", "secret", "new", None)
    ids = (scene.open_id, scene.secret_id, ZERO_UUID)
    for attack in attacks(api, version):
        if attack.is_same:
            continue
        for pair in product(product(names, ids), repeat=2):
            stored = Stored([name for name, _ in pair], [each for _, each in pair], ["mine"] * 2, ["mine"] * 2)  # type: ignore[misc]
            yield attack.message(stored, 2)


def _frame(request: Any, version: int) -> memoryview | None:
    """Encode the request, or return None if it has a null where the version has none."""
    try:
        return VirtualBroker.frame(request, version)
    except (AttributeError, TypeError):
        return None


def _shown(message: Any, scene: Scene) -> Iterator[Any]:
    """Rows of a response that are about `secret` and have something else than an error."""
    for field in getattr(message, "FIELDS", ()):
        value = getattr(message, field)
        for row in value if isinstance(value, list | tuple) else [value]:
            if hasattr(row, "FIELDS"):
                own = [getattr(row, name, None) for name in (*_NAMES, *_IDS)]
                if ("secret" in own or scene.secret_id in own) and 0 in (list(_errors(row)) or [0]):
                    yield row
                yield from _shown(row, scene)


def _errors(row: Any) -> Iterator[int]:
    """Yield the error of the row, or those of the rows in it."""
    for field in row.FIELDS:
        value = getattr(row, field)
        if field.endswith("error_code"):
            if value:
                yield value
                return
            yield value
        elif isinstance(value, list | tuple):
            for inner in value:
                if hasattr(inner, "FIELDS"):
                    yield from _errors(inner)


@pytest.mark.interpreted  # compiled, a class of the protocol takes no name of None
@pytest.mark.parametrize(("api", "version"), _A_SAMPLE, ids=lambda each: getattr(each, "name", each))
def test_no_mixed_entry_shows_or_changes_what_one_of_its_names_forbids(api: Api, version: int) -> None:
    scene = Scene()
    before = scene.state()
    seen = set()
    for request in _mixed(scene, api, version):
        frame = _frame(request, version)
        if frame is None or bytes(frame) in seen:
            continue
        seen.add(bytes(frame))
        reply = scene.virtual.take(frame, request, version, host=_ALICE)
        scene.virtual.time.settle()
        if not reply.is_there or reply.is_closed:
            continue
        response = reply.message
        assert getattr(response, "error_code", 0) or list(_shown(response, scene)) == [], request
        assert "secret" not in str(response) or b"secret" in bytes(frame), request
    assert seen
    assert scene.state() == before
    assert scene.virtual.warnings == []


@pytest.mark.parametrize("version", [12, 13])
def test_an_id_is_answered_by_its_own_right_whatever_name_stands_beside_it(version: int) -> None:
    scene = Scene()
    rows = [MetadataRequestTopic(topic_id=scene.secret_id, name="open")]
    found = scene.ask(MetadataRequest(topics=rows), version).topics
    assert [(row.error_code, row.name, len(row.partitions)) for row in found] == [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, 0)
    ]


def test_a_name_beside_a_forbidden_id_creates_no_topic() -> None:
    """Had the check dropped the forbidden id from the request, the name alone would have been looked up, and
    created.
    """
    scene = Scene()
    rows = [MetadataRequestTopic(topic_id=scene.secret_id, name=None), MetadataRequestTopic(name="new")]
    found = scene.ask(MetadataRequest(topics=rows, allow_auto_topic_creation=True), 12).topics
    assert [row.error_code for row in found] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert scene.virtual.broker.topics.get("new") is None


_TURNS = pytest.mark.parametrize("turns", range(1, 20, 2))
"""A large request takes some to be decoded, some for the rights, some in its handler."""


@_TURNS
def test_a_topic_that_is_created_meanwhile_is_not_deleted_without_a_right(turns: int) -> None:
    """A topic that does not exist needs no right to delete it, and may exist by the time that it would be deleted."""
    scene = Scene()
    rows = [DeleteTopicState(name="new"), *(DeleteTopicState(name=f"x{number}") for number in range(3_000))]
    reply = scene.virtual.start(DeleteTopicsRequest(topics=rows), 6, host=_ALICE)
    for _ in range(turns):
        scene.virtual.time.turn()
    scene.virtual.broker.topics.create("new", 1)
    scene.virtual.time.settle()
    assert reply.is_there
    assert scene.virtual.broker.topics.get("new") is not None


@_TURNS
def test_a_topic_that_is_deleted_meanwhile_is_not_created_without_a_right(turns: int) -> None:
    scene = Scene()
    rows = [MetadataRequestTopic(name=name) for name in ("open", *(f"x{number}" for number in range(3_000)))]
    reply = scene.virtual.start(MetadataRequest(topics=rows, allow_auto_topic_creation=True), 9, host=_ALICE)
    for _ in range(turns):
        scene.virtual.time.turn()
    scene.virtual.broker.topics.delete("open")
    scene.virtual.time.settle()
    assert reply.is_there
    assert scene.virtual.broker.topics.get("open") is None


@pytest.mark.parametrize("version", [9, 11, 12, 13])
def test_a_batch_joins_no_transaction_of_another_id(version: int) -> None:
    """Its producer id finds Bob's open transaction; Alice has a right on an id of her own alone."""
    scene = Scene()
    before = scene.state()
    log = scene.virtual.broker.topics.partition("open", 0)
    refused = scene.produce("mine", scene.theirs, sequence=1, version=version)
    assert refused == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert (log.log_end_offset, scene.state()) == (1, before)
    assert scene.produce("theirs", scene.theirs, _BOB, sequence=1) == ErrorCode.NONE


def test_with_kafkas_behaviour_a_batch_joins_the_transaction_of_its_producer_id() -> None:
    scene = Scene("oncelog.compat=kafka")
    assert scene.produce("mine", scene.theirs, sequence=1) == ErrorCode.NONE


@pytest.mark.parametrize("version", range(3, API_TABLE[ApiKey.TXN_OFFSET_COMMIT].maximum + 1))
def test_offsets_join_no_transaction_of_another_id(version: int) -> None:
    scene = Scene()
    before = scene.state()
    request = TxnOffsetCommitRequest(
        transactional_id="mine",
        group_id="mine",
        producer_id=scene.theirs,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="open", partitions=[TxnOffsetCommitRequestPartition()])],
    )
    refused = scene.ask(request, version).topics[0].partitions[0].error_code
    assert refused == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert scene.state() == before


def test_no_request_about_a_transaction_reaches_that_of_another_producer_id() -> None:
    scene = Scene()
    before = scene.state()
    assert scene.add("mine", scene.theirs) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    for version in range(API_TABLE[ApiKey.END_TXN].maximum + 1):
        end = EndTxnRequest(transactional_id="mine", producer_id=scene.theirs, producer_epoch=0, committed=True)
        assert scene.ask(end, version).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    for version in range(3, API_TABLE[ApiKey.INIT_PRODUCER_ID].maximum + 1):
        again = InitProducerIdRequest(
            transactional_id="mine", transaction_timeout_ms=60_000, producer_id=scene.theirs, producer_epoch=0
        )
        fenced = ErrorCode.PRODUCER_FENCED if version > 3 else ErrorCode.INVALID_PRODUCER_EPOCH
        assert scene.ask(again, version).error_code == fenced
    assert scene.state() == before
