"""What a transactional producer asks of the coordinators of its transactions and of its groups.

Owns: the identity that the requests carry, the transaction protocol that they speak, and what is known of the
coordinator by its responses. Does not own: when to ask, and what follows from a response (`transaction_manager`,
`transaction_partitions`). Invariant: a request without a response is noted, since should it still arrive, it must not
reach the next transaction.
"""

from collections.abc import Callable, Iterable, Mapping

from oncelog.client.producing.batch import ProducerIdentity
from oncelog.client.values.errors import AbortableError, KafkaError, ProducerFenced, error_for
from oncelog.client.values.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import Api
from oncelog.client.wire.cluster import Cluster, CoordinatorKind
from oncelog.client.wire.producer_apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    END_TXN_V1,
    INIT_PRODUCER_ID,
    INIT_TWO_PHASE_COMMIT,
    PRODUCE,
    PRODUCE_V1,
    TXN_OFFSET_COMMIT,
    TXN_OFFSET_COMMIT_V1,
)
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from oncelog.protocol.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.protocol.generated.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.end_txn_response import EndTxnResponse
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.init_producer_id_response import InitProducerIdResponse
from oncelog.protocol.generated.produce_request import ProduceRequest
from oncelog.protocol.generated.produce_response import ProduceResponse
from oncelog.protocol.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.protocol.generated.txn_offset_commit_response import TxnOffsetCommitResponse

_SECOND_PROTOCOL = 2
"""The level of the feature transaction.version that brings the second protocol (KIP-890)."""
_FENCED = frozenset((ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH))
_NONE = (0, TopicPartition("", -1))


class TransactionRequests:
    def __init__(
        self, cluster: Cluster, transactional_id: str, *, transaction_timeout_ms: int, two_phase_commit: bool
    ) -> None:
        self.identity = ProducerIdentity()
        self.needs_new_epoch = False
        """Whether something of this epoch may still arrive."""
        self.is_second_protocol = False
        self.is_open_there = False
        """True once the coordinator has confirmed that something is in the transaction."""
        self._cluster = cluster
        self._id = transactional_id
        self._transaction_timeout_ms = transaction_timeout_ms
        self._two_phase_commit = two_phase_commit

    @property
    def produce_api(self) -> Api[ProduceRequest, ProduceResponse]:
        return PRODUCE if self.is_second_protocol else PRODUCE_V1

    def choose_protocol(self) -> None:
        self.is_second_protocol = self._cluster.metadata.features.get("transaction.version", 0) >= _SECOND_PROTOCOL

    def begin(self) -> None:
        """Choose the protocol of a new transaction, of which the coordinator knows nothing."""
        self.choose_protocol()
        self.is_open_there = False

    def adopt(self, identity: ProducerIdentity) -> None:
        """Use an identity that the coordinator gave: nothing late can reach what follows."""
        self.identity = identity
        self.needs_new_epoch = False

    def on_lost(self) -> None:
        """Note that a request got no response, and may still arrive."""
        self.needs_new_epoch = True

    async def init_producer_id(self, deadline: Deadline, *, keeps_prepared: bool) -> InitProducerIdResponse:
        # Sending its own epoch distinguishes a producer that continues from one that starts (KIP-360).
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=self._transaction_timeout_ms,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            enable2_pc=self._two_phase_commit,
            keep_prepared_txn=keeps_prepared,
        )
        return await self._cluster.call_coordinator(
            CoordinatorKind.TRANSACTION,
            self._id,
            INIT_TWO_PHASE_COMMIT if self._two_phase_commit else INIT_PRODUCER_ID,
            request,
            deadline,
            lambda each: each.error_code,
        )

    async def add_partitions(self, partitions: Iterable[TopicPartition], deadline: Deadline) -> int:
        """Add them to the transaction, all or none; returns the error code."""
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name, parts) for name, parts in topics.items()],
        )
        response = await self._cluster.call_coordinator(
            CoordinatorKind.TRANSACTION,
            self._id,
            ADD_PARTITIONS_TO_TXN,
            request,
            deadline,
            _add_partitions_error,
            on_lost=self.on_lost,
        )
        code = _add_partitions_error(response)
        self.is_open_there |= not code
        return code

    async def add_offsets(self, group_id: str, deadline: Deadline) -> int:
        """Add the group's partition of offsets to the transaction; returns the error code."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            group_id=group_id,
        )
        response = await self._cluster.call_coordinator(
            CoordinatorKind.TRANSACTION,
            self._id,
            ADD_OFFSETS_TO_TXN,
            request,
            deadline,
            lambda each: each.error_code,
            on_lost=self.on_lost,
        )
        self.is_open_there |= not response.error_code
        return response.error_code

    async def commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata, deadline: Deadline
    ) -> tuple[int, TopicPartition]:
        """Write the group's offsets in the transaction; returns the first error code, and the partition that it is
        about."""
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            part = TxnOffsetCommitRequestPartition(partition, offset.offset, offset.leader_epoch, offset.metadata)
            topics.setdefault(topic, []).append(part)
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group.group_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[TxnOffsetCommitRequestTopic(name, parts) for name, parts in topics.items()],
        )
        response = await self._cluster.call_coordinator(
            CoordinatorKind.GROUP,
            group.group_id,
            TXN_OFFSET_COMMIT if self.is_second_protocol else TXN_OFFSET_COMMIT_V1,
            request,
            deadline,
            lambda each: _refused_offset(each)[0],
            on_lost=self.on_lost,
        )
        return _refused_offset(response)

    async def end(self, deadline: Deadline, *, committed: bool, on_lost: Callable[[], None]) -> EndTxnResponse:
        """Commit the transaction, or abort it. `on_lost` is called when the request was sent and got no response."""

        def on_end_lost() -> None:
            on_lost()
            self.on_lost()

        return await self._cluster.call_coordinator(
            CoordinatorKind.TRANSACTION,
            self._id,
            END_TXN if self.is_second_protocol else END_TXN_V1,
            EndTxnRequest(self._id, self.identity.producer_id, self.identity.producer_epoch, committed),
            deadline,
            lambda each: each.error_code,
            on_lost=on_end_lost,
        )


def refusal(code: int, *, commit_unknown: bool = False) -> KafkaError:
    """Return the error of a coordinator's code for the producer: it is fenced, or this transaction has failed, or the
    error is for good."""
    error = error_for(code)
    if code in _FENCED:
        return ProducerFenced(code=error.code, commit_unknown=commit_unknown)
    return AbortableError(code=error.code) if error.retriable else error


def unanswered(error: KafkaError) -> AbortableError:
    """No answer came in time: the transaction has failed, and the next one may well succeed."""
    return AbortableError(error.message, code=error.code or ErrorCode.REQUEST_TIMED_OUT)


def _add_partitions_error(response: AddPartitionsToTxnResponse) -> int:
    """The error that caused the rejection: the other partitions have OPERATION_NOT_ATTEMPTED."""
    codes = [
        partition.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    ]
    return next((code for code in codes if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)), 0)


def _refused_offset(response: TxnOffsetCommitResponse) -> tuple[int, TopicPartition]:
    """The first error code, and the partition that it is about."""
    parts = [(topic.name, each) for topic in response.topics for each in topic.partitions if each.error_code]
    return (parts[0][1].error_code, TopicPartition(parts[0][0], parts[0][1].partition_index)) if parts else _NONE
