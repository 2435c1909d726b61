"""What a request and its response say to the witness: one function for each API that says something, of its name.

Owns: where messages have what the witness needs. Does not own: which APIs are watched, and when (`broker.apis`), what
follows (`witness`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from oncelog.broker.apis.table import TRANSACTION_V2_SINCE
from oncelog.broker.cluster.metadata_log import ResourceType
from oncelog.broker.config.group_config import group_config_value
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.sharing.values import RENEW
from oncelog.broker.witness.findings import Sender, shortened
from oncelog.broker.witness.holdings import MOST_RANGES
from oncelog.broker.witness.witness import Acknowledged, Batch, SharedBy, Witness
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.records.batch import HEADER_SIZE, NO_PRODUCER_ID, read_header

if TYPE_CHECKING:  # each is imported when its API is used first
    from uuid import UUID

    from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
    from oncelog.protocol.generated.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
    from oncelog.protocol.generated.end_txn_request import EndTxnRequest
    from oncelog.protocol.generated.end_txn_response import EndTxnResponse
    from oncelog.protocol.generated.fetch_request import FetchRequest
    from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
    from oncelog.protocol.generated.init_producer_id_response import InitProducerIdResponse
    from oncelog.protocol.generated.join_group_request import JoinGroupRequest
    from oncelog.protocol.generated.offset_commit_request import OffsetCommitRequest
    from oncelog.protocol.generated.offset_commit_response import OffsetCommitResponse
    from oncelog.protocol.generated.produce_request import ProduceRequest
    from oncelog.protocol.generated.produce_response import ProduceResponse
    from oncelog.protocol.generated.share_acknowledge_request import ShareAcknowledgeRequest
    from oncelog.protocol.generated.share_acknowledge_response import ShareAcknowledgeResponse
    from oncelog.protocol.generated.share_fetch_request import ShareFetchRequest
    from oncelog.protocol.generated.share_fetch_response import ShareFetchResponse
    from oncelog.protocol.generated.txn_offset_commit_request import TxnOffsetCommitRequest
    from oncelog.protocol.generated.txn_offset_commit_response import TxnOffsetCommitResponse

_V2_SINCE = TRANSACTION_V2_SINCE[ApiKey.END_TXN]
_READ_UNCOMMITTED = 0
_NO_GENERATION = -1
MOST_TOPICS = 1_000
MOST_PARTITIONS = 100
"""The most partitions looked at in one request, and in one topic of it. Measured: 1,000 topics of a Fetch take 5 ms."""
MOST_ACKNOWLEDGED = 1_000
"""The most ranges looked at in the acknowledgement of one partition."""

# --- known from the request -------------------------------------------------------------------------------------------


def api_versions(witness: Witness, context: RequestContext, request: "ApiVersionsRequest") -> None:
    if request.client_software_name:
        witness.on_software(context.peer, request.client_software_name, request.client_software_version)


def fetch(witness: Witness, context: RequestContext, request: "FetchRequest") -> None:
    """Note what a consumer reads. In a fetch session, topics are named when they are added to it."""
    is_consumer = request.replica_id < 0 and request.replica_state.replica_id < 0
    if request.isolation_level == _READ_UNCOMMITTED and request.topics and is_consumer:
        topics = [_topic_name(context, each.topic, each.topic_id) for each in request.topics[:MOST_TOPICS]]
        witness.on_uncommitted_fetch(_sender(witness, context), topics)


def join_group(witness: Witness, _: RequestContext, request: "JoinGroupRequest") -> None:
    witness.on_member(shortened(request.group_id), request.session_timeout_ms)


def consumer_group_heartbeat(
    witness: Witness, context: RequestContext, request: "ConsumerGroupHeartbeatRequest"
) -> None:
    """Note a member. Its session timeout is a setting of the group, or of the broker (KIP-848)."""
    config = context.broker.metadata.state.config(ResourceType.GROUP, request.group_id)
    session_timeout_ms = group_config_value("consumer.session.timeout.ms", config, context.broker.config)
    witness.on_member(shortened(request.group_id), session_timeout_ms)


# --- known from the response ------------------------------------------------------------------------------------------


def produce(
    witness: Witness, context: RequestContext, request: "ProduceRequest", response: "ProduceResponse | None"
) -> None:
    sender = _sender(witness, context)
    topics = [_topic_name(context, each.name, each.topic_id) for each in request.topic_data[:MOST_TOPICS]]
    if request.transactional_id is None:
        if request.acks in (0, 1):
            witness.on_weak_produce(sender, topics, request.acks)
        return
    witness.on_transactional_produce(sender, topics)
    errors = {} if response is None else _errors(response)
    if errors or witness.has_failed_batches:
        by_producer: dict[tuple[int, int], list[Batch]] = {}
        for producer, batch in _batches(request, topics, errors):
            by_producer.setdefault(producer, []).append(batch)
        for producer, batches in by_producer.items():
            witness.on_batches(producer, batches)


def _errors(response: "ProduceResponse") -> "dict[tuple[str | UUID, int], int]":
    """Return the errors by topic, as the request names it, and partition."""
    return {
        (topic.name or topic.topic_id, partition.index): partition.error_code
        for topic in response.responses[:MOST_TOPICS]
        for partition in topic.partition_responses[:MOST_PARTITIONS]
        if partition.error_code
    }


def _batches(
    request: "ProduceRequest", topics: Sequence[str], errors: "Mapping[tuple[str | UUID, int], int]"
) -> Iterator[tuple[tuple[int, int], Batch]]:
    """Yield the batches, each with its producer id and epoch; batches without a header are left out."""
    for topic, name in zip(request.topic_data, topics, strict=False):
        for partition in topic.partition_data[:MOST_PARTITIONS]:
            if partition.records is None or len(partition.records) < HEADER_SIZE:
                continue
            header = read_header(partition.records)
            code = errors.get((topic.name or topic.topic_id, partition.index), 0)
            error = ErrorCode(code).name if code else ""
            batch = Batch(name, partition.index, header.crc, header.base_sequence, header.record_count, error)
            yield (header.producer_id, header.producer_epoch), batch


def offset_commit(
    witness: Witness, context: RequestContext, request: "OffsetCommitRequest", response: "OffsetCommitResponse"
) -> None:
    if _is_any_committed(response):
        witness.on_plain_commit(
            _sender(witness, context),
            shortened(request.group_id),
            [_topic_name(context, each.name, each.topic_id) for each in request.topics[:MOST_TOPICS]],
            names_member=bool(request.member_id) or request.generation_id_or_member_epoch != _NO_GENERATION,
        )


def txn_offset_commit(
    witness: Witness, context: RequestContext, request: "TxnOffsetCommitRequest", response: "TxnOffsetCommitResponse"
) -> None:
    if _is_any_committed(response):
        witness.on_transactional_commit(
            _sender(witness, context),
            shortened(request.transactional_id),
            shortened(request.group_id),
            names_member=bool(request.member_id) or request.generation_id != _NO_GENERATION,
        )


def _is_any_committed(response: "OffsetCommitResponse | TxnOffsetCommitResponse") -> bool:
    return any(not partition.error_code for topic in response.topics for partition in topic.partitions)


def init_producer_id(
    witness: Witness, context: RequestContext, request: "InitProducerIdRequest", response: "InitProducerIdResponse"
) -> None:
    if request.transactional_id and not response.error_code:
        witness.on_init_producer_id(
            _sender(witness, context),
            shortened(request.transactional_id),
            request.transaction_timeout_ms,
            is_new=request.producer_id == NO_PRODUCER_ID,
        )


def end_txn(witness: Witness, context: RequestContext, request: "EndTxnRequest", response: "EndTxnResponse") -> None:
    if not response.error_code:
        witness.on_transaction_end(
            _sender(witness, context),
            shortened(request.transactional_id),
            (request.producer_id, request.producer_epoch),
            is_commit=request.committed,
            is_version_1=context.api_version < _V2_SINCE,
        )


def share_fetch(
    witness: Witness, context: RequestContext, request: "ShareFetchRequest", response: "ShareFetchResponse"
) -> None:
    if response.error_code:
        return
    errors = {
        (topic.topic_id, partition.partition_index): partition.acknowledge_error_code
        for topic in response.responses[:MOST_TOPICS]
        for partition in topic.partitions[:MOST_PARTITIONS]
    }
    _acknowledged(witness, context, request, errors, response.acquisition_lock_timeout_ms)
    for topic in response.responses[:MOST_TOPICS]:
        for partition in topic.partitions[:MOST_PARTITIONS]:
            ranges = [(each.first_offset, each.last_offset) for each in partition.acquired_records[:MOST_RANGES]]
            if ranges:
                shared = _shared_by(context, request, topic.topic_id, partition.partition_index)
                witness.on_acquired(shared, ranges, response.acquisition_lock_timeout_ms)


def share_acknowledge(
    witness: Witness, context: RequestContext, request: "ShareAcknowledgeRequest", response: "ShareAcknowledgeResponse"
) -> None:
    if response.error_code:
        return
    errors = {
        (topic.topic_id, partition.partition_index): partition.error_code
        for topic in response.responses[:MOST_TOPICS]
        for partition in topic.partitions[:MOST_PARTITIONS]
    }
    _acknowledged(witness, context, request, errors, response.acquisition_lock_timeout_ms)


def _acknowledged(
    witness: Witness,
    context: RequestContext,
    request: "ShareFetchRequest | ShareAcknowledgeRequest",
    errors: "Mapping[tuple[UUID, int], int]",
    lock_ms: int,
) -> None:
    """Note the acknowledgements of a request; `errors` is what the response says of each partition."""
    for topic in request.topics[:MOST_TOPICS]:
        for row in topic.partitions[:MOST_PARTITIONS]:
            error = errors.get((topic.topic_id, row.partition_index))
            if not row.acknowledgement_batches or error is None:
                continue
            acknowledged = list(islice(_ranges(row.acknowledgement_batches), MOST_ACKNOWLEDGED))
            shared = _shared_by(context, request, topic.topic_id, row.partition_index)
            if not error:
                witness.on_acknowledged(_sender(witness, context), shared, acknowledged, lock_ms)
            elif error == ErrorCode.INVALID_RECORD_STATE:
                witness.on_refused_acknowledgement(_sender(witness, context), shared, acknowledged)


def _ranges(batches: Iterable[Any]) -> Iterator[Acknowledged]:
    """Yield what acknowledgement batches say, cut where renewals begin and end."""
    for batch in batches:
        types = batch.acknowledge_types
        if len(types) == 1:
            yield Acknowledged(batch.first_offset, batch.last_offset, types[0] == RENEW)
            continue
        offset = batch.first_offset
        for is_renewal, each in groupby(types, RENEW.__eq__):
            count = len(list(each))
            yield Acknowledged(offset, offset + count - 1, is_renewal)
            offset += count


def _shared_by(
    context: RequestContext, request: "ShareFetchRequest | ShareAcknowledgeRequest", topic_id: "UUID", partition: int
) -> SharedBy:
    group, member_id = shortened(request.group_id or ""), shortened(request.member_id or "")
    return SharedBy(group, member_id, _topic_name(context, "", topic_id), partition)


# --- both -------------------------------------------------------------------------------------------------------------


def _sender(witness: Witness, context: RequestContext) -> Sender:
    return witness.sender(context.peer, context.client_id)


def _topic_name(context: RequestContext, name: str, topic_id: "UUID") -> str:
    """Return the topic's name. Later versions name topics by id only; an unknown id is shown as it is."""
    if name:
        return shortened(name)
    topic = context.broker.topics.by_id(topic_id)
    return str(topic_id) if topic is None else topic.name
