"""A producer that speaks to a whole broker, request by request, in the versions that a test asks for."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.fakes.broker import Reply, VirtualBroker

TOPIC, TRANSACTIONAL_ID = "topic", "id"
TIMEOUT_MS = 10_000


def broker_with_topic(*overrides: str) -> VirtualBroker:
    broker = VirtualBroker(*overrides)
    broker.ask(CreateTopicsRequest(topics=[CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)]), 4)
    for kind in (0, 1):
        broker.ask(FindCoordinatorRequest(key=TRANSACTIONAL_ID, key_type=kind), 2)
    return broker


class Producer:
    def __init__(self, broker: VirtualBroker, transactional_id: str = TRANSACTIONAL_ID) -> None:
        self.broker = broker
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.producer_epoch = -1

    @property
    def pair(self) -> tuple[int, int]:
        return self.producer_id, self.producer_epoch

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
        }

    def init(self, version: int = 4) -> "Producer":
        while True:
            answer = self.broker.ask(
                InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS),
                version,
            )
            if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            self.broker.let_pass(20)
        assert answer.error_code == ErrorCode.NONE
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        return self

    def add(self, *partitions: int, topic: str = TOPIC, version: int = 3) -> list[ErrorCode]:
        """The error of each partition, in order."""
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=partitions)]
        answer = self.broker.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_topics=topics,
                **{f"v3_and_below_{name}": value for name, value in self.identity.items()},
            ),
            version,
        )
        (result,) = answer.results_by_topic_v3_and_below
        return [ErrorCode(partition.partition_error_code) for partition in result.results_by_partition]

    def add_for_broker(self, *partitions: int, verify_only: bool = False) -> list[ErrorCode]:
        topics = [AddPartitionsToTxnTopic(name=TOPIC, partitions=partitions)]
        transaction = AddPartitionsToTxnTransaction(topics=topics, verify_only=verify_only, **self.identity)
        answer = self.broker.ask(AddPartitionsToTxnRequest(transactions=[transaction]), 5)
        (result,) = answer.results_by_transaction
        assert result.transactional_id == self.transactional_id
        (topic,) = result.topic_results
        return [ErrorCode(partition.partition_error_code) for partition in topic.results_by_partition]

    def produce(self, partition: int = 0, *, sequence: int = 0, version: int = 11) -> ErrorCode:
        reply = self.start_produce(partition, sequence=sequence, version=version)
        self.broker.time.settle()
        return ErrorCode(reply.message.responses[0].partition_responses[0].error_code)

    def start_produce(self, partition: int = 0, *, sequence: int = 0, version: int = 11) -> Reply:
        """Sent, and not durable yet."""
        batch = encode_batch(
            [Record(0, self.broker.time.wall_ms(), None, b"value")],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=partition, records=memoryview(batch))
        return self.broker.start(
            ProduceRequest(
                transactional_id=self.transactional_id,
                acks=-1,
                timeout_ms=1_000,
                topic_data=[
                    TopicProduceData(name=TOPIC, topic_id=log_of(self.broker, 0).topic_id, partition_data=[data])
                ],
            ),
            version,
        )

    def ask_end(self, commit: bool, version: int) -> Any:
        return self.broker.ask(EndTxnRequest(committed=commit, **self.identity), version)

    def end(self, commit: bool = True, version: int = 3) -> ErrorCode:
        """End the transaction; from version 5 on, continue with the identity in the answer."""
        answer = self.ask_end(commit, version)
        if version >= 5 and answer.error_code == ErrorCode.NONE:
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)


def log_of(broker: VirtualBroker, partition: int = 0) -> PartitionLog:
    return broker.broker.topics.partition(TOPIC, partition)


@contextmanager
def serving(**versions: int) -> Iterator[None]:
    """Every API of transactions that has a handler, up to these versions, whatever is listed for clients."""
    with pytest.MonkeyPatch.context() as patch:
        for name, maximum in versions.items():
            key = ApiKey[name.upper()]
            listed = API_TABLE[key]
            patch.setitem(API_TABLE, key, replace(listed, maximum=max(maximum, listed.maximum)))
        yield
