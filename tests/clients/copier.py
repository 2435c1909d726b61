"""The coordinator requests of a copier, one by one and in librdkafka's versions, to a broker in memory or a daemon."""

from typing import Any, Protocol

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.protocol.message import Message

TOPIC, GROUP, TRANSACTIONAL_ID = "topic", "group", "copier"


class Broker(Protocol):
    def ask(self, request: Message, version: int) -> Any: ...


class CopierRequests:
    """One transaction; each answer must be there at once and must be NONE. `broker` can be replaced by the next one."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        broker.ask(CreateTopicsRequest(topics=[CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)]), 4)
        self._coordinator = self._found(0)
        init = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000)
        self.find_coordinators()
        pair = broker.ask(init, 1)
        self._producer: dict[str, Any] = {
            "transactional_id": TRANSACTIONAL_ID,
            "producer_id": pair.producer_id,
            "producer_epoch": pair.producer_epoch,
        }

    def find_coordinators(self) -> None:
        """Require that the broker itself coordinates the group and the transactional id, before a restart and after
        it.
        """
        for kind in (0, 1):
            assert self._found(kind) == self._coordinator

    def add_offsets(self) -> None:
        answer = self.broker.ask(AddOffsetsToTxnRequest(group_id=GROUP, **self._producer), 0)
        assert answer.error_code == ErrorCode.NONE

    def commit_offset(self) -> None:
        data = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=42)
        topics = [TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[data])]
        answer = self.broker.ask(TxnOffsetCommitRequest(group_id=GROUP, topics=topics, **self._producer), 3)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE

    def end(self) -> None:
        assert self.broker.ask(EndTxnRequest(committed=True, **self._producer), 1).error_code == ErrorCode.NONE

    def _found(self, kind: int) -> tuple[int, str, int]:
        key = TRANSACTIONAL_ID if kind else GROUP
        found = self.broker.ask(FindCoordinatorRequest(key=key, key_type=kind), 2)
        assert found.error_code == ErrorCode.NONE
        return found.node_id, found.host, found.port
