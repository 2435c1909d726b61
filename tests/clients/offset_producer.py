"""A transactional producer that only commits offsets, request by request."""

from dataclasses import dataclass
from typing import Any

from oncelog.protocol.errors import ErrorCode
from tests.clients.asking import Reply, one_partition, request
from tests.clients.group_members import GROUP, TOPIC, Broker

TIMEOUT_MS = 60_000


@dataclass
class Producer:
    broker: Broker
    transactional_id: str = "transactional"
    producer_id: int = -1
    producer_epoch: int = -1

    def init(self) -> "Producer":
        asked = request("InitProducerId", transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS)
        answer = self.broker.ask(asked, 1)
        while ErrorCode(answer.error_code).retriable:  # first of all it ends what its predecessor has left open
            self.broker.let_pass(20)
            answer = self.broker.ask(asked, 1)
        assert answer.error_code == ErrorCode.NONE
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        return self

    def add_offsets(self, group_id: str = GROUP) -> ErrorCode:
        asked = request("AddOffsetsToTxn", group_id=group_id, **self._identity)
        return ErrorCode(self.broker.ask(asked, 0).error_code)

    @property
    def _identity(self) -> dict[str, Any]:
        producer = {"producer_id": self.producer_id, "producer_epoch": self.producer_epoch}
        return {"transactional_id": self.transactional_id, **producer}

    def send_commit(
        self,
        offset: int,
        partition: int = 0,
        *,
        group_id: str = GROUP,
        topic: str = TOPIC,
        version: int = 3,
        **member: Any,
    ) -> ErrorCode:
        """One TxnOffsetCommit, of a member if there is one."""
        topics = one_partition(topic, partition, committed_offset=offset)
        asked = request("TxnOffsetCommit", group_id=group_id, topics=topics, **self._identity, **member)
        return ErrorCode(self.broker.ask(asked, version).topics[0].partitions[0].error_code)

    def commit_offset(self, offset: int, partition: int = 0, *, group_id: str = GROUP) -> None:
        """AddOffsetsToTxn and TxnOffsetCommit, both of which must work."""
        assert self.add_offsets(group_id) == ErrorCode.NONE
        assert self.send_commit(offset, partition, group_id=group_id) == ErrorCode.NONE

    def send_end(self, *, committed: bool) -> Reply:
        return self.broker.send(request("EndTxn", committed=committed, **self._identity), 1)

    def end(self, *, committed: bool) -> None:
        assert self.send_end(committed=committed).message.error_code == ErrorCode.NONE
