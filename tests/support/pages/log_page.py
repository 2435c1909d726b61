"""The data directory that docs/understand/log.md looks at: the same bytes each time, written by the broker itself.

A shop: orders that are written plainly, in transactions of both outcomes, and in one that is still open; prices of
which compaction has left the newest; a group that has committed its offset.
"""

from pathlib import Path
from typing import Any

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.fakes.broker import VirtualBroker

_TOPICS = {
    "orders": {"segment.ms": "60000", "index.interval.bytes": "500"},
    "prices": {"segment.ms": "60000", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"},
}
_ONE_PARTITION = ("offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1")
_SEGMENT_GAP_MS = 61_000
_COMPACTION_MS = 120_000


def make_data(data_dir: Path) -> None:
    """Fill `data_dir` as a broker leaves it that was stopped cleanly."""
    shop = _Shop()
    shop.trade()
    shop.broker.broker.logs.close()
    disk = shop.broker.disk
    for name in disk.directories:
        (data_dir / name).mkdir(parents=True, exist_ok=True)
    for name, inode in disk.files.items():
        (data_dir / name).write_bytes(inode.data)


class _Shop:
    def __init__(self) -> None:
        self.broker = VirtualBroker(*_ONE_PARTITION)
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
            )
            for name, settings in _TOPICS.items()
        ]
        self.broker.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
        for kind in (0, 1):
            self.broker.ask(FindCoordinatorRequest(key="shop", key_type=kind), 2)
        self._sequences: dict[int, int] = {}

    def trade(self) -> None:
        web, till = self.begin("web"), self.begin("till")
        buyers = [self.begin(None) for _ in range(3)]
        for day in range(3):
            for number in range(16):
                self.order(day * 100 + number, count=1 + number % 3)
                self.order(day * 100 + number, web, "gzip" if number % 4 == 0 else "none")
                if number % 5 == 2:
                    self.order(day * 100 + number, till)
                if number % 3 == 2:
                    self.end(web, commit=number % 2 == 0)
                if number == 12:
                    self.end(till, commit=day == 1)
                self.price(f"item {number % 5}", day * 100 + number, buyers[day])
            self.end(web, commit=True)
            self.broker.let_pass(_SEGMENT_GAP_MS)
        self.order(900, web)
        self.order(901)
        self.commit_offset("dispatch", 40)
        self.broker.broker.logs.step()
        self.broker.let_pass(_COMPACTION_MS)

    def begin(self, transactional_id: str | None) -> dict[str, Any]:
        answer = self.broker.ask(
            InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=900_000), 4
        )
        assert answer.error_code == ErrorCode.NONE
        return {
            "transactional_id": transactional_id,
            "producer_id": answer.producer_id,
            "producer_epoch": answer.producer_epoch,
        }

    def order(
        self, number: int, identity: dict[str, Any] | None = None, compression: str = "none", count: int = 1
    ) -> None:
        values = [b'{"order": %d, "item": %d}' % (number, line) for line in range(count)]
        if identity is None:
            self._produce("orders", b"customer %d" % (number % 7), values, compression=compression)
            return
        topics = [AddPartitionsToTxnTopic(name="orders", partitions=(0,))]
        fields = {f"v3_and_below_{name}": value for name, value in identity.items()}
        self.broker.ask(AddPartitionsToTxnRequest(v3_and_below_topics=topics, **fields), 3)
        self._produce(
            "orders",
            b"customer %d" % (number % 7),
            values,
            identity["transactional_id"],
            compression=compression,
            transactional=True,
            **self._in_sequence(identity, count),
        )

    def price(self, item: str, cents: int, identity: dict[str, Any]) -> None:
        self._produce("prices", item.encode(), [b"%d" % cents], **self._in_sequence(identity, 1))

    def _in_sequence(self, identity: dict[str, Any], count: int) -> dict[str, Any]:
        producer_id = identity["producer_id"]
        sequence = self._sequences.get(producer_id, 0)
        self._sequences[producer_id] = sequence + count
        return {
            "producer_id": producer_id,
            "producer_epoch": identity["producer_epoch"],
            "base_sequence": sequence,
        }

    def _produce(
        self, topic: str, key: bytes, values: list[bytes], transactional_id: str | None = None, **more: Any
    ) -> None:
        wall_ms = self.broker.time.wall_ms()
        data = encode_batch([Record(slot, wall_ms, key, value) for slot, value in enumerate(values)], **more)
        partition = PartitionProduceData(index=0, records=memoryview(data))
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[partition])],
        )
        (answer,) = self.broker.ask(request, 8).responses[0].partition_responses
        assert answer.error_code == ErrorCode.NONE
        self.broker.let_pass(40)

    def end(self, identity: dict[str, Any], *, commit: bool) -> None:
        assert self.broker.ask(EndTxnRequest(committed=commit, **identity), 3).error_code == ErrorCode.NONE
        self.broker.let_pass(100)

    def commit_offset(self, group_id: str, offset: int) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
        answer = self.broker.ask(OffsetCommitRequest(group_id=group_id, topics=[topic]), 7)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
