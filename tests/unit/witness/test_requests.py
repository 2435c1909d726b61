"""What the witness notes of requests: in every version that clients send, and nothing where it is off."""

import asyncio
import json
from importlib import import_module
from typing import Any

import pytest

from oncelog.broker.admin.messages import AdminRequest, HttpError, Response
from oncelog.broker.admin.metrics_routes import MetricsRoutes
from oncelog.broker.admin.routes import Routes
from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.faults.rule import Action, Point, Rule, Selector
from oncelog.broker.witness import facts
from oncelog.broker.witness.findings import Finding
from oncelog.broker.witness.requests import OWN_CLIENT_IDS
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from oncelog.protocol.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.protocol.generated.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.join_group_request import JoinGroupRequest
from oncelog.protocol.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.fakes.broker import VirtualBroker

TOPIC, GROUP, TILL = "sales", "group", "till"
EARLIEST, NEWEST = 0, -1
either = pytest.mark.parametrize("end", [EARLIEST, NEWEST], ids=["first version", "last version"])


class Till:
    """A broker that is watched, and one transactional producer."""

    def __init__(self, *overrides: str) -> None:
        self.broker = VirtualBroker("oncelog.storage=memory", "oncelog.witness.enable=true", *overrides)
        self.broker.ask(
            CreateTopicsRequest(topics=[CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)]), 4
        )
        for key, of_what in ((GROUP, 0), (TILL, 1)):
            self.broker.ask(FindCoordinatorRequest(key=key, key_type=of_what), 2)
        known = self.broker.broker.topics.get(TOPIC)
        assert known is not None
        self.topic_id = known.topic_id
        answer = self.broker.ask(InitProducerIdRequest(transactional_id=TILL, transaction_timeout_ms=60_000), 4)
        self.producer = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
        self.sequence = 0

    def version(self, key: ApiKey, end: int) -> int:
        return (API_TABLE[key].minimum, API_TABLE[key].maximum)[end]

    def ask(self, request: Any, key: ApiKey, end: int = EARLIEST) -> Any:
        return self.broker.ask(request, self.version(key, end))

    def produce(self, end: int = EARLIEST) -> int:
        """One record in the transaction, which is begun; returns the error."""
        if end == EARLIEST:
            topics = [AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])]
            named = {f"v3_and_below_{name}": value for name, value in self.producer.items()}
            request = AddPartitionsToTxnRequest(v3_and_below_transactional_id=TILL, v3_and_below_topics=topics, **named)
            self.ask(request, ApiKey.ADD_PARTITIONS_TO_TXN)
        batch = encode_batch(
            [Record(0, 0, None, b"apples")], base_sequence=self.sequence, transactional=True, **self.producer
        )
        partitions = [PartitionProduceData(index=0, records=memoryview(batch))]
        topic = TopicProduceData(name=TOPIC, topic_id=self.topic_id, partition_data=partitions)
        answer = self.ask(ProduceRequest(transactional_id=TILL, acks=-1, topic_data=[topic]), ApiKey.PRODUCE, end)
        error: int = answer.responses[0].partition_responses[0].error_code
        return error

    def commit(self, end: int = EARLIEST) -> None:
        answer = self.ask(EndTxnRequest(transactional_id=TILL, committed=True, **self.producer), ApiKey.END_TXN, end)
        assert answer.error_code == 0

    @property
    def findings(self) -> tuple[Finding, ...]:
        assert self.broker.broker.witness is not None
        return self.broker.broker.witness.report().findings

    @property
    def kinds(self) -> list[tuple[str, str | None]]:
        return [(each.kind, each.topic or each.group) for each in self.findings]


@either
def test_a_reader_and_a_writer_name_their_topic_or_its_id(end: int) -> None:
    till = Till()
    assert till.produce(end) == 0
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
    topics = [FetchTopic(topic=TOPIC, topic_id=till.topic_id, partitions=[partition])]
    request = FetchRequest(isolation_level=0, max_bytes=100, topics=topics)
    till.broker.send(request, till.version(ApiKey.FETCH, end))
    assert till.kinds == [("reads-uncommitted", TOPIC)]


def test_of_a_request_with_very_many_topics_the_first_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing holds the loop for long."""
    till = Till()
    assert till.produce() == 0
    parts = [FetchPartition(partition=0, partition_max_bytes=100)]
    request = FetchRequest(
        max_bytes=100, topics=[FetchTopic(topic=each, partitions=parts) for each in ("other", TOPIC)]
    )
    monkeypatch.setattr(facts, "MOST_TOPICS", 1)
    till.broker.send(request, 11)
    assert till.kinds == []
    monkeypatch.setattr(facts, "MOST_TOPICS", 2)
    till.broker.send(request, 11)
    assert till.kinds == [("reads-uncommitted", TOPIC)]


def test_the_command_the_console_and_the_fixture_read_what_they_like() -> None:
    till = Till()
    assert till.produce() == 0
    topics = [FetchTopic(topic=TOPIC, partitions=[FetchPartition(partition=0, partition_max_bytes=100)])]
    for client_id in (*OWN_CLIENT_IDS, "somebody"):
        till.broker.send(FetchRequest(max_bytes=100, topics=topics), 11, client_id=client_id)
    assert till.kinds == [("reads-uncommitted", TOPIC)]
    assert [each.client_id for each in till.findings] == ["somebody"]


def test_a_follower_reads_everything_and_is_no_reader() -> None:
    till = Till()
    assert till.produce() == 0
    topics = [FetchTopic(topic=TOPIC, partitions=[FetchPartition(partition=0, partition_max_bytes=100)])]
    till.broker.send(FetchRequest(replica_id=5, max_bytes=100, topics=topics), 11)
    assert till.kinds == []


@either
def test_a_failed_batch_is_known_by_its_header_and_a_commit_by_its_epoch(end: int) -> None:
    """A fault rule stands for a broker that refuses: the witness knows the answer that the client got."""
    till = Till()
    refuse = Rule(Point.ANSWER, Action.ERROR, Selector(api=ApiKey.PRODUCE), error=ErrorCode.KAFKA_STORAGE_ERROR)
    till.broker.faults.plant(refuse)
    assert till.produce(end) == ErrorCode.KAFKA_STORAGE_ERROR
    till.commit(end)
    assert ("commit-after-failed-produce", TOPIC) in till.kinds


def test_a_failed_batch_that_is_sent_again_is_settled() -> None:
    till = Till()
    refuse = Rule(Point.ANSWER, Action.ERROR, Selector(api=ApiKey.PRODUCE), error=ErrorCode.KAFKA_STORAGE_ERROR)
    till.broker.faults.plant(refuse)
    assert (till.produce(), till.produce()) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
    till.commit()
    assert till.kinds == [("torn-transactions", None)]


@either
def test_the_version_of_the_protocol_is_that_of_the_end_of_a_transaction(end: int) -> None:
    till = Till()
    assert till.produce(end) == 0
    till.commit(end)
    assert till.kinds == ([("torn-transactions", None)] if end == EARLIEST else [])


CLASSIC = JoinGroupRequest(group_id=GROUP, session_timeout_ms=10_000, protocol_type="consumer")
MODERN = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m", rebalance_timeout_ms=1_000)


@pytest.mark.parametrize("member", [CLASSIC, MODERN], ids=["classic", "KIP-848"])
def test_offsets_by_the_first_versions_name_no_member_and_are_taken_as_such(member: Any) -> None:
    """A group's session timeout is what its member says, or by KIP-848 what the broker's settings do: 45 seconds."""
    till = Till()
    till.broker.send(member, 1)
    add = AddOffsetsToTxnRequest(transactional_id=TILL, group_id=GROUP, **till.producer)
    assert till.ask(add, ApiKey.ADD_OFFSETS_TO_TXN).error_code == 0
    parts = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    topics = [TxnOffsetCommitRequestTopic(name=TOPIC, partitions=parts)]
    commit = TxnOffsetCommitRequest(transactional_id=TILL, group_id=GROUP, topics=topics, **till.producer)
    till.ask(commit, ApiKey.TXN_OFFSET_COMMIT)
    assert till.kinds == [("group-metadata-missing", GROUP), ("transaction-timeout", GROUP)]


def test_a_commit_that_the_coordinator_refuses_is_none() -> None:
    till = Till()
    assert till.produce() == 0
    parts = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    commit = OffsetCommitRequest(
        group_id=GROUP,
        member_id="nobody",
        generation_id_or_member_epoch=3,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=parts)],
    )
    answer = till.ask(commit, ApiKey.OFFSET_COMMIT)
    assert answer.topics[0].partitions[0].error_code != 0
    assert till.kinds == []


def test_it_is_served_where_it_is_on_and_the_answer_says_what_to_set_where_it_is_off() -> None:
    request = AdminRequest("GET", ("witness",))
    till = Till()
    till.produce()
    till.commit()
    for routes in (MetricsRoutes(till.broker.broker, lambda: None), Routes(till.broker.faults)):
        answer: Any = asyncio.run(routes.serve(request))
        assert isinstance(answer, Response)
        assert [each["kind"] for each in json.loads(answer.body)["findings"]] == ["torn-transactions"]
    off = VirtualBroker("oncelog.storage=memory").broker
    with pytest.raises(HttpError, match=r"oncelog\.witness\.enable=true"):
        asyncio.run(MetricsRoutes(off, lambda: None).serve(request))


@pytest.mark.interpreted
def test_a_broker_without_it_calls_its_handlers_as_they_are() -> None:
    broker = VirtualBroker("oncelog.storage=memory", with_faults=False)
    broker.ask(EndTxnRequest(transactional_id=TILL), 3)
    loaded = broker.dispatcher._loaded[ApiKey.END_TXN]
    assert loaded.handle is import_module("oncelog.broker.handlers.end_txn").handle
