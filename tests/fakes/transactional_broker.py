"""A broker in memory with one topic to read, one to write, one group and one transactional id, over a network that
drops, breaks and delays: it knows what is committed, so that a test can compare it with what a client believes.

Owns: the transaction, its records and offsets (both protocols, KIP-98 and KIP-890), the faults. Does not own: who acts.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from oncelog.client.values.records import Record as ClientRecord
from oncelog.client.values.records import TopicPartition
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from oncelog.protocol.generated.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from oncelog.protocol.generated.api_versions_response import ApiVersionsResponse, FinalizedFeatureKey
from oncelog.protocol.generated.end_txn_response import EndTxnResponse
from oncelog.protocol.generated.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from oncelog.protocol.generated.heartbeat_response import HeartbeatResponse
from oncelog.protocol.generated.init_producer_id_response import InitProducerIdResponse
from oncelog.protocol.generated.leave_group_response import LeaveGroupResponse
from oncelog.protocol.generated.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from oncelog.protocol.generated.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from oncelog.protocol.generated.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from oncelog.protocol.generated.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from oncelog.protocol.records.batch import decode_batch, encode_batch, iter_batches
from oncelog.protocol.records.record import Record
from tests.fakes.scripted_answers import OF_A_MEMBER, OF_A_PRODUCER, TOPIC
from tests.fakes.virtual_loop import Connection, ScriptedBroker, VirtualLoop

PLACE = TopicPartition(TOPIC, 0)
PRODUCER_ID = 7
MOST_LATE_S = 20.0
MOST_SLOW_S = 3.0
_SWALLOWED, _BROKEN, _DONE_AND_SWALLOWED, _DONE_AND_BROKEN, _LATE = range(5)


class TransactionalBroker(ScriptedBroker):
    """Reads `log`. `is_calm` ends the faults."""

    def __init__(self, log: list[bytes], random: Random, *, is_second_protocol: bool, fault_rate: float) -> None:
        super().__init__(
            {
                **OF_A_MEMBER,
                **OF_A_PRODUCER,
                ApiKey.LEAVE_GROUP: lambda _: LeaveGroupResponse(),
                ApiKey.HEARTBEAT: self._heartbeat,
                ApiKey.OFFSET_COMMIT: self._offset_commit,
                ApiKey.FETCH: self._fetch,
                ApiKey.OFFSET_FETCH: self._offset_fetch,
                ApiKey.INIT_PRODUCER_ID: self._init_producer_id,
                ApiKey.ADD_PARTITIONS_TO_TXN: self._add_partitions,
                ApiKey.ADD_OFFSETS_TO_TXN: self._add_offsets,
                ApiKey.TXN_OFFSET_COMMIT: self._txn_offset_commit,
                ApiKey.PRODUCE: self._produce,
                ApiKey.END_TXN: self._end_txn,
            }
        )
        self.random = random
        self.fault_rate = fault_rate
        self.is_calm = False
        self.rebalance_rate = 0.0
        """The share of heartbeats that are answered by REBALANCE_IN_PROGRESS."""
        self.on_commit: Callable[[int], None] = lambda _: None
        """Called with each offset that a member commits outside of transactions."""
        self.written: list[bytes] = []
        """Committed, in the order of their offsets."""
        self.committed_offset = 0
        self.epoch = -1
        self._log = log
        self._is_second_protocol = is_second_protocol
        self._is_ongoing = False
        self._has_group = False
        self._last_end: bool | None = None
        self._pending_records: list[bytes] = []
        self._pending_offset: int | None = None
        self._next_sequence = 0
        self._written_sequences: set[int] = set()

    def connect(self, loop: VirtualLoop, protocol: asyncio.BufferedProtocol) -> Connection:
        return _FaultyConnection(loop, protocol, self)

    def _versions(self) -> ApiVersionsResponse:
        versions = super()._versions()
        if self._is_second_protocol:
            versions.finalized_features_epoch = 1
            versions.finalized_features = [FinalizedFeatureKey("transaction.version", 2, 2)]
        return versions

    # --- what is read -------------------------------------------------------------------------------------------------

    def _fetch(self, request: Any) -> FetchResponse:
        end = len(self._log)
        parts = []
        for wanted in (part for topic in request.topics for part in topic.partitions if part.fetch_offset < end):
            records = [Record(at, 0, None, value, ()) for at, value in enumerate(self._log[wanted.fetch_offset :])]
            encoded = wanted.fetch_offset.to_bytes(8, "big") + encode_batch(records)[8:]
            parts.append(
                PartitionData(
                    partition_index=0, high_watermark=end, last_stable_offset=end, records=memoryview(encoded)
                )
            )
        return FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=parts)] if parts else [])

    def _offset_fetch(self, _: Any) -> OffsetFetchResponse:
        code = ErrorCode.NONE if self._pending_offset is None else ErrorCode.UNSTABLE_OFFSET_COMMIT
        found = OffsetFetchResponsePartitions(
            partition_index=0, committed_offset=self.committed_offset, error_code=code
        )
        topics = [OffsetFetchResponseTopics(name=TOPIC, partitions=[found])]
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="group", topics=topics)])

    def _heartbeat(self, _: Any) -> HeartbeatResponse:
        rebalances = not self.is_calm and self.random.random() < self.rebalance_rate
        return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if rebalances else ErrorCode.NONE)

    def _offset_commit(self, request: Any) -> OffsetCommitResponse:
        self.committed_offset = request.topics[0].partitions[0].committed_offset
        self.on_commit(self.committed_offset)
        committed = OffsetCommitResponsePartition(partition_index=0)
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=TOPIC, partitions=[committed])])

    # --- the coordinator ----------------------------------------------------------------------------------------------

    def _init_producer_id(self, request: Any) -> InitProducerIdResponse:
        # An epoch before the present one is that of a request whose response was lost (KIP-360).
        if request.producer_id >= 0 and request.producer_epoch not in (self.epoch, self.epoch - 1):
            return InitProducerIdResponse(error_code=ErrorCode.PRODUCER_FENCED)
        self._end(is_committed=False)
        self._begin_epoch()
        self._last_end = None
        return InitProducerIdResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch)

    def _begin_epoch(self) -> None:
        self.epoch += 1
        self._next_sequence = 0
        self._written_sequences.clear()

    def _check(self, epoch: int, *, needs_group: bool = False) -> ErrorCode:
        if epoch != self.epoch:
            return ErrorCode.PRODUCER_FENCED
        if self._is_second_protocol or not needs_group:
            self._is_ongoing = True
        self._has_group |= self._is_second_protocol and needs_group
        return ErrorCode.NONE if self._has_group or not needs_group else ErrorCode.INVALID_TXN_STATE

    def _add_partitions(self, request: Any) -> AddPartitionsToTxnResponse:
        code = self._check(request.v3_and_below_producer_epoch)
        topics = [
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[AddPartitionsToTxnPartitionResult(each, code) for each in topic.partitions],
            )
            for topic in request.v3_and_below_topics
        ]
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)

    def _add_offsets(self, request: Any) -> AddOffsetsToTxnResponse:
        code = self._check(request.producer_epoch)
        self._has_group |= not code
        return AddOffsetsToTxnResponse(error_code=code)

    def _txn_offset_commit(self, request: Any) -> TxnOffsetCommitResponse:
        code = self._check(request.producer_epoch, needs_group=True)
        if not code:
            self._pending_offset = request.topics[0].partitions[0].committed_offset
        part = TxnOffsetCommitResponsePartition(partition_index=0, error_code=code)
        return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name=TOPIC, partitions=[part])])

    def _end_txn(self, request: Any) -> EndTxnResponse:
        is_again = self._last_end == request.committed and not self._is_ongoing
        if self._is_second_protocol and is_again and request.producer_epoch == self.epoch - 1:
            return EndTxnResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch)
        if request.producer_epoch != self.epoch:
            return EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)
        if not self._is_ongoing and not (is_again or (self._is_second_protocol and not request.committed)):
            return EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)
        self._end(is_committed=request.committed)
        self._last_end = request.committed
        if not self._is_second_protocol:
            return EndTxnResponse()
        self._begin_epoch()
        return EndTxnResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch)

    def _end(self, *, is_committed: bool) -> None:
        if is_committed:
            self.written += self._pending_records
            if self._pending_offset is not None:
                self.committed_offset = self._pending_offset
        self._pending_records, self._pending_offset = [], None
        self._is_ongoing = self._has_group = False

    # --- what is written ----------------------------------------------------------------------------------------------

    def _produce(self, request: Any) -> ProduceResponse:
        code = ErrorCode.NONE
        for topic in request.topic_data:
            for part in topic.partition_data:
                for header, encoded in iter_batches(memoryview(part.records)):
                    code = code or self._append(header, encoded)
        written = [PartitionProduceResponse(index=0, base_offset=0, error_code=code)]
        return ProduceResponse(responses=[TopicProduceResponse(name=TOPIC, partition_responses=written)])

    def _append(self, header: Any, encoded: memoryview) -> ErrorCode:
        if header.producer_epoch != self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if header.base_sequence in self._written_sequences:
            return ErrorCode.NONE
        self._is_ongoing |= self._is_second_protocol
        if not self._is_ongoing:
            return ErrorCode.INVALID_TXN_STATE
        if header.base_sequence != self._next_sequence:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self._written_sequences.add(header.base_sequence)
        self._next_sequence += header.record_count
        self._pending_records += [bytes(each.value) for each in decode_batch(header, encoded, ClientRecord, PLACE)]
        return ErrorCode.NONE


class _FaultyConnection(Connection):
    """Each request may be lost, with all that follow; its response may be lost, or slow; it may arrive long after its
    sender has given it up."""

    _broker: TransactionalBroker

    def _on_request(self, frame: memoryview) -> None:
        random = self._broker.random
        key = ApiKey(int.from_bytes(frame[:2], "big"))
        is_faulty = not self._broker.is_calm and key is not ApiKey.API_VERSIONS
        if is_faulty and random.random() < self._broker.fault_rate:
            self._fail(random.randrange(5), bytes(frame))
            return
        response = self._broker.answer(frame)
        if response is None:
            return
        delay_s = random.random() * MOST_SLOW_S if is_faulty and random.random() < 0.3 else 0.001
        if key is ApiKey.FETCH:
            delay_s = max(delay_s, 0.1)
        self._respond(response, delay_s)

    def _fail(self, fault: int, frame: bytes) -> None:
        if fault in (_DONE_AND_SWALLOWED, _DONE_AND_BROKEN):
            self._broker.answer(memoryview(frame))
        if fault == _LATE:
            late_s = self._broker.random.random() * MOST_LATE_S
            self._loop.call_later(late_s, self._broker.answer, memoryview(frame))
        if fault in (_BROKEN, _DONE_AND_BROKEN):
            self.close()
        else:
            self.is_silent = True
