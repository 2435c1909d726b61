"""A transactional producer of a conversation: every request of a transaction in any version, answers in short.

Owns: the bytes that are asked, and which part of an answer counts (error codes, epochs, whether a producer id is still
the same; no ids, no times). Does not own: what is asked when (`transaction_transcript`, `append_transcript`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from oncelog.protocol.generated.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.describe_transactions_request import DescribeTransactionsRequest
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.protocol.message import Message
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.clients.group_members import Broker

TOPIC, GROUP = "written", "group"
TIMEOUT_MS = 60_000
PLAIN, VERIFIED, IMPLICIT = 8, 11, 12
"""Versions of Produce: before transactions are verified in full, with verification, adding its partitions by itself."""
_PAUSE_MS = 20
_LATEST = -1


@dataclass(frozen=True, slots=True)
class Conversation:
    """Whom one talks to. Batches carry `wall_ms`: a broker forgets producers whose last batch is old."""

    broker: Broker
    wall_ms: int

    def ask(self, request: Message, version: int) -> Any:
        reply = self.broker.send(request, version)
        while not reply.is_there:  # a broker may wait a moment for markers before it says "try again"
            self.broker.let_pass(_PAUSE_MS)
        return reply.message

    def create_topic(self, name: str, partitions: int = 1) -> str:
        self.create_empty_topic(name, partitions)
        for partition in range(partitions):
            # A topic may be there before its partitions are.
            while self.produce(None, partition, topic=name, version=PLAIN)[0] != "NONE":
                self.broker.let_pass(100)
        return name

    def create_empty_topic(self, name: str, partitions: int) -> None:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        made = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)  # the latter after a first try that took too long
        while self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5).topics[0].error_code not in made:
            self.broker.let_pass(100)

    def init(self, transactional_id: str | None, version: int = 4, **fields: Any) -> Any:
        """One InitProducerId as it is answered."""
        fields = {"transaction_timeout_ms": TIMEOUT_MS, **fields}
        return self.ask(InitProducerIdRequest(transactional_id=transactional_id, **fields), version)

    def started(self, transactional_id: str | None, **fields: Any) -> "Producer":
        """A producer that is ready to go, however often it has to ask."""
        answer = self.init(transactional_id, **fields)
        while ErrorCode(answer.error_code).retriable:
            self.broker.let_pass(_PAUSE_MS)
            answer = self.init(transactional_id, **fields)
        if answer.error_code:
            raise AssertionError(name(answer.error_code))
        return Producer(self, transactional_id or "", answer.producer_id, answer.producer_epoch)

    def produce(
        self,
        producer: "Producer | None",
        partition: int = 0,
        *,
        topic: str = TOPIC,
        sequence: int = 0,
        count: int = 1,
        version: int = VERIFIED,
        transactional: bool = True,
    ) -> tuple[str, int]:
        """Error and base offset."""
        records = [Record(index, self.wall_ms, None, b"value") for index in range(count)]
        identity = {}
        if producer is not None:
            identity = {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.producer_epoch,
                "base_sequence": sequence,
            }
        is_transactional = transactional and producer is not None
        batch = encode_batch(records, **identity, transactional=is_transactional)
        data = PartitionProduceData(index=partition, records=memoryview(batch))
        request = ProduceRequest(
            transactional_id=producer.transactional_id if producer is not None and is_transactional else None,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        answer = self.ask(request, version).responses[0].partition_responses[0]
        return name(answer.error_code), answer.base_offset

    def described(self, transactional_id: str) -> Any:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        return self.ask(request, 0).transaction_states[0]

    def settled(self, transactional_id: str) -> str:
        """State, epoch and number of partitions of a transactional id, once no markers are on their way."""
        while (state := self.described(transactional_id)).transaction_state.startswith("Prepare"):
            self.broker.let_pass(_PAUSE_MS)
        if state.error_code:
            return name(state.error_code)
        count = sum(len(topic.partitions) for topic in state.topics)
        return f"{state.transaction_state}, epoch {state.producer_epoch}, {count} partitions"


@dataclass(frozen=True, slots=True)
class Producer:
    """A pair that claims to be the producer of a transactional id; each method is one request."""

    talk: Conversation
    transactional_id: str
    producer_id: int
    producer_epoch: int

    def but(self, **changes: Any) -> "Producer":
        return replace(self, **changes)

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
        }

    def pair(self, answer: Any) -> tuple[str, str, int]:
        """Error, producer id as it is to ours, and epoch of an answer that has them."""
        given = {self.producer_id: "same id", -1: "no id"}.get(answer.producer_id, "another id")
        return name(answer.error_code), given, answer.producer_epoch

    def resume(self, version: int = 4) -> tuple[str, str, int]:
        """InitProducerId with the pair (KIP-360)."""
        fields = {"producer_id": self.producer_id, "producer_epoch": self.producer_epoch}
        return self.pair(self.talk.init(self.transactional_id, version, **fields))

    def renew(self, version: int = 4) -> tuple[str, str, int]:
        """InitProducerId without it, as a new instance does."""
        return self.pair(self.talk.init(self.transactional_id, version))

    def add(self, *partitions: int, version: int = 3, topic: str = TOPIC, unknown: str | None = None) -> list[str]:
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=partitions)]
        if unknown is not None:
            topics.append(AddPartitionsToTxnTopic(name=unknown, partitions=[0]))
        identity = {f"v3_and_below_{field}": value for field, value in self.identity.items()}
        request = AddPartitionsToTxnRequest(v3_and_below_topics=topics, **identity)
        return _errors(self.talk.ask(request, version).results_by_topic_v3_and_below)

    def add_batched(self, *partitions: int, version: int = 5, verify_only: bool = False, topic: str = TOPIC) -> Any:
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=partitions)]
        transaction = AddPartitionsToTxnTransaction(topics=topics, verify_only=verify_only, **self.identity)
        answer = self.talk.ask(AddPartitionsToTxnRequest(transactions=[transaction]), version)
        return name(answer.error_code), [_errors(result.topic_results) for result in answer.results_by_transaction]

    def add_offsets(self, version: int = 3, group_id: str = GROUP) -> str:
        request = AddOffsetsToTxnRequest(group_id=group_id, **self.identity)
        return name(self.talk.ask(request, version).error_code)

    def commit_offset(self, version: int = 3, *, topic: str = TOPIC, group_id: str = GROUP, **member: Any) -> str:
        """One TxnOffsetCommit."""
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
        topics = [TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])]
        request = TxnOffsetCommitRequest(group_id=group_id, topics=topics, **self.identity, **member)
        return name(self.talk.ask(request, version).topics[0].partitions[0].error_code)

    def produce(self, partition: int = 0, **how: Any) -> tuple[str, int]:
        return self.talk.produce(self, partition, **how)

    def write(self, partition: int = 0, **how: Any) -> str:
        """Produce, where only the error counts."""
        return self.produce(partition, **how)[0]

    def end(self, commit: bool, version: int = 3) -> Any:
        """EndTxn; from version 5 on with the pair that it answers."""
        answer = self.talk.ask(EndTxnRequest(committed=commit, **self.identity), version)
        return self.pair(answer) if version >= 5 else name(answer.error_code)

    def ended(self, commit: bool, version: int = 3) -> "Producer":
        """End the transaction, which must work; return the producer with the identity for the next one."""
        answer = self.talk.ask(EndTxnRequest(committed=commit, **self.identity), version)
        if answer.error_code:
            raise AssertionError(name(answer.error_code))
        self.talk.settled(self.transactional_id)
        if version < 5:
            return self
        return self.but(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)

    def settled(self) -> str:
        return self.talk.settled(self.transactional_id)


def ends(talk: Conversation, topic: str) -> tuple[int, ...]:
    """High watermark and last stable offset."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=_LATEST)
    topics = [ListOffsetsTopic(name=topic, partitions=[partition])]
    return tuple(
        talk.ask(ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=topics), 7)
        .topics[0]
        .partitions[0]
        .offset
        for level in (0, 1)
    )


def name(code: int) -> str:
    return ErrorCode(code).name


def _errors(topics: Sequence[Any]) -> list[str]:
    """The errors in order of topics and partitions: Kafka answers in the order of a hash table."""
    found = [
        (topic.name, part.partition_index, name(part.partition_error_code))
        for topic in topics
        for part in topic.results_by_partition
    ]
    return [error for _, _, error in sorted(found)]
