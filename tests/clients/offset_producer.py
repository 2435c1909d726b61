"""A transactional producer that only commits offsets, request by request."""

from dataclasses import dataclass

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.clients.group_members import GROUP, TOPIC, Broker, Reply

TIMEOUT_MS = 60_000


@dataclass
class Producer:
    broker: Broker
    transactional_id: str = "transactional"
    producer_id: int = -1
    producer_epoch: int = -1

    def init(self) -> "Producer":
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS)
        answer = self.broker.ask(request, 1)
        while ErrorCode(answer.error_code).retriable:  # first of all it ends what its predecessor has left open
            self.broker.let_pass(20)
            answer = self.broker.ask(request, 1)
        assert answer.error_code == ErrorCode.NONE
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        return self

    def add_offsets(self, group_id: str = GROUP) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            group_id=group_id,
        )
        return ErrorCode(self.broker.ask(request, 0).error_code)

    def send_commit(
        self,
        offset: int,
        partition: int = 0,
        *,
        group_id: str = GROUP,
        topic: str = TOPIC,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        version: int = 3,
    ) -> ErrorCode:
        """One TxnOffsetCommit."""
        data = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=group_instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[data])],
        )
        return ErrorCode(self.broker.ask(request, version).topics[0].partitions[0].error_code)

    def commit_offset(self, offset: int, partition: int = 0, *, group_id: str = GROUP) -> None:
        """AddOffsetsToTxn and TxnOffsetCommit, both of which must work."""
        assert self.add_offsets(group_id) == ErrorCode.NONE
        assert self.send_commit(offset, partition, group_id=group_id) == ErrorCode.NONE

    def send_end(self, *, committed: bool) -> Reply:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=committed,
        )
        return self.broker.send(request, 1)

    def end(self, *, committed: bool) -> None:
        assert self.send_end(committed=committed).message.error_code == ErrorCode.NONE
