"""Bugs of other brokers and clients that no other file of tests is about; docs/operate/security.md has all."""

import sys
from pathlib import Path
from typing import Any

import pytest

from oncelog.broker.config.broker_keys import BROKER_KEYS
from oncelog.broker.config.settings import ConfigError, load_config
from oncelog.broker.security.access_rules import entry_record
from oncelog.broker.security.jaas import parse_jaas
from oncelog.protocol.acls import Acl, AclOperation, PatternType, Permission, ResourceType
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from oncelog.protocol.generated.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from oncelog.protocol.generated.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.protocol.generated.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.clients.sasl_connection import JAAS, SaslServer
from tests.fakes.broker import VirtualBroker

AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


def guarded(*rights: tuple[AclOperation, ResourceType, str]) -> VirtualBroker:
    """A broker with the topic `orders`, and these rights of its clients."""
    virtual = VirtualBroker(AUTHORIZER)
    virtual.broker.topics.create("orders", 1)
    for operation, kind, name in rights:
        acl = Acl(kind, name, PatternType.LITERAL, "User:*", "*", operation, Permission.ALLOW)
        virtual.broker.metadata.write([entry_record(virtual.broker.entropy.uuid(), acl)])
    virtual.time.settle()
    return virtual


def produce(transactional_id: str | None, *, is_transactional: bool) -> ProduceRequest:
    batch = encode_batch(
        [Record(0, 0, None, b"value")],
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        transactional=is_transactional,
    )
    data = PartitionProduceData(index=0, records=memoryview(batch))
    topics = [TopicProduceData(name="orders", partition_data=[data])]
    return ProduceRequest(transactional_id=transactional_id, acks=-1, topic_data=topics)


@pytest.mark.parametrize("version", range(3, 13))
@pytest.mark.parametrize("transactional_id", [None, "mine"])
def test_transactional_records_need_the_right_on_their_id_whatever_the_request_says(
    version: int, transactional_id: str | None
) -> None:
    """CVE-2018-17196: a crafted Produce passed the check of transactional ids, by a client with Write on the topic."""
    virtual = guarded((AclOperation.WRITE, TOPIC, "orders"))
    answer = virtual.ask(produce(transactional_id, is_transactional=True), version)
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert virtual.broker.topics.partition("orders", 0).log_end_offset == 0
    assert (
        virtual.ask(produce(None, is_transactional=False), version).responses[0].partition_responses[0].error_code == 0
    )


_TRANSACTIONS: tuple[tuple[Any, int], ...] = (
    (InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=1_000), 4),
    (
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="id",
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
        ),
        3,
    ),
    (
        AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id="id",
                    producer_id=7,
                    topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
                )
            ]
        ),
        5,
    ),
    (AddOffsetsToTxnRequest(transactional_id="id", producer_id=7, group_id="group"), 3),
    (EndTxnRequest(transactional_id="id", producer_id=7), 5),
    (
        TxnOffsetCommitRequest(
            transactional_id="id",
            group_id="group",
            producer_id=7,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="orders", partitions=[TxnOffsetCommitRequestPartition(committed_offset=1)]
                )
            ],
        ),
        3,
    ),
    (
        WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(producer_id=7, topics=[WritableTxnMarkerTopic(name="orders", partition_indexes=[0])])
            ]
        ),
        1,
    ),
)


@pytest.mark.parametrize(("request_", "version"), _TRANSACTIONS, ids=lambda each: type(each).__name__)
def test_no_request_about_transactions_does_anything_without_its_right(request_: Any, version: int) -> None:
    """CVE-2023-50976: Redpanda's transactions had no check of rights at all. Here with every other right."""
    others = ((AclOperation.ALL, TOPIC, "*"), (AclOperation.ALL, GROUP, "*"))
    virtual = guarded(*others)
    ends = [virtual.broker.topics.partition("orders", 0).log_end_offset, len(virtual.broker.topics.all())]
    answer = virtual.ask(request_, version)
    failed = {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert _errors(answer) and _errors(answer) <= failed
    assert ends == [virtual.broker.topics.partition("orders", 0).log_end_offset, len(virtual.broker.topics.all())]


def _errors(message: Any) -> set[int]:
    """The codes of a response, wherever they are."""
    found: set[int] = set()
    for name in getattr(message, "FIELDS", ()):
        value = getattr(message, name)
        if name.endswith("error_code") and value:
            found.add(value)
        for each in value if isinstance(value, list | tuple) else (value,):
            found |= _errors(each)
    return found


@pytest.mark.parametrize("version", [12, 17])
def test_a_reader_that_calls_itself_a_replica_reads_nothing_and_moves_nothing(version: int) -> None:
    """CVE-2018-1288: by a crafted Fetch a client acted as a follower, and records were lost."""
    virtual = guarded((AclOperation.READ, TOPIC, "orders"), (AclOperation.WRITE, TOPIC, "orders"))
    virtual.ask(produce(None, is_transactional=False), 9)
    log = virtual.broker.topics.partition("orders", 0)
    before = (log.high_watermark, log.log_end_offset, log.log_start_offset)
    topic = virtual.broker.topics.get("orders")
    assert topic is not None
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000, log_start_offset=1)
    topics = [FetchTopic(topic="orders", topic_id=topic.topic_id, partitions=[partition])]
    state = ReplicaState(replica_id=1, replica_epoch=-1) if version >= 15 else ReplicaState()
    replica_id = -1 if version >= 15 else 1
    request = FetchRequest(replica_id=replica_id, replica_state=state, max_bytes=1_000, topics=topics)
    (answer,) = virtual.ask(request, version).responses
    assert answer.partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not answer.partitions[0].records
    assert (log.high_watermark, log.log_end_offset, log.log_start_offset) == before


@pytest.mark.parametrize(("iterations", "said"), [(4_095, "Too few iterations"), (16_385, "Too many iterations")])
def test_no_credential_makes_clients_compute_for_long(iterations: int, said: str) -> None:
    """kafka-python#3026: clients compute as many iterations as the broker says, which has them from here."""
    change = ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=iterations, salt=b"salt", salted_password=b"x" * 32
    )
    virtual = VirtualBroker()
    (answer,) = virtual.ask(AlterUserScramCredentialsRequest(upsertions=[change]), 0).results
    assert (answer.error_code, answer.error_message) == (ErrorCode.UNACCEPTABLE_CREDENTIAL, said)
    assert not virtual.broker.metadata.state.security.scram_credentials


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A class in a module that is not imported yet."""
    (tmp_path / "named_by_a_setting.py").write_text("class Evil: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    return "named_by_a_setting.Evil"


def test_no_setting_names_a_class_that_is_loaded(trap: str) -> None:
    """CVE-2023-25194, CVE-2025-27818: a login module or a class in a setting was loaded, and ran code of others."""
    for key in BROKER_KEYS:
        try:
            load_config(overrides=[f"{key}={trap}"])
        except ConfigError:
            continue  # most are numbers, or one of a few words
    for name in (trap, "com.sun.security.auth.module.JndiLoginModule", "os.system"):
        line = f'{name} required user.provider.url="ldap://127.0.0.1:1/x" user_alice="alice-secret";'
        assert parse_jaas(line).passwords == {"alice": "alice-secret"}
        server = SaslServer(f"{JAAS.partition('=')[0]}={line}", mechanisms="PLAIN")
        client = server.connect()
        client.log_in()
        assert client.ask(MetadataRequest(topics=None), 9) is not None
    assert "named_by_a_setting" not in sys.modules
