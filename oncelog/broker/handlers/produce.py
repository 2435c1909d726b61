"""Produce (0), versions 3–13 (advertised from 0, KAFKA-18659): append one record batch per named partition.

- Records stay opaque: the partition checks the batch header, the CRC and the producer's sequence, and writes.
- acks=1 and acks=all are acknowledged once the batch is durable. A duplicate waits for its original. acks=0 never gets
  a response: an error closes the connection.
- In a transaction it is enough that a kill cannot undo the batch: it counts with the commit, which is durable after it.
- What is acknowledged can be read, listed and deleted at once, as on a Kafka with one replica: such a request waits
  until the high watermark, which here is the flushed offset, has passed it.
- The next request of the connection may start once this one is appended (KIP-98 needs the order, not the response).
- A transactional batch may open a transaction on a partition only if the coordinator has that partition in it, verified
  in the turn of the append (KIP-890, part 1).
- Without a transactional id, or with another producer's batches, transactional records fail the whole request.

Version notes: v7 zstd (76 before), v8 error messages, v9 flexible, v10 current leader (KIP-951; one node never moves a
leader), v11 TRANSACTION_ABORTABLE, v12 adds the partitions to the transaction implicitly (KIP-890 part 2), durable with
the batches; everything is verified in the turn of the append. v13 topic ids (KIP-516): UNKNOWN_TOPIC_ID.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oncelog.broker.apis.table import TRANSACTION_V2, TRANSACTION_V2_SINCE
from oncelog.broker.handlers.shared.asked_topics import asked_topic
from oncelog.broker.log.batch_validation import LongBatch, is_framed
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.requests.context import CloseConnection, Pipelined, RequestContext
from oncelog.broker.turns.completion import Completion, all_of
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode, InvalidRecordsError, KafkaError
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest
from oncelog.protocol.generated.produce_response import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from oncelog.protocol.records.batch import (
    BASE_SEQUENCE_AT,
    COMPRESSION_MASK,
    FLAGS_AT,
    HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    TRANSACTIONAL_MASK,
)
from oncelog.protocol.records.compression import CODECS
from oncelog.protocol.topics import INTERNAL_TOPICS

if TYPE_CHECKING:
    from oncelog.broker.log.opening import OpenedBatch

_ZSTD = CODECS["zstd"]

_V2_SINCE = TRANSACTION_V2_SINCE[ApiKey.PRODUCE]
_PARTITIONS_AT_ONCE = 100
_APPEND_ELEMENTS = 64
_FIRST_APPEND_ELEMENTS = 250
_FIRST_APPENDS_AT_ONCE = 4
"""How many first appends one turn makes. Measured: each creates the partition's files, which takes 1 to 2 ms."""

Answer = ProduceResponse | Pipelined | None
_Wait = tuple[PartitionLog, int, bool, list[PartitionProduceResponse], int]
"""A partition whose acknowledgement is pending, the offset after its batch, whether that is a duplicate, and the place
among the partitions of a response."""


def handle(context: RequestContext, request: ProduceRequest) -> Answer | Completion[Any]:
    acks = request.acks
    if acks not in (-1, 0, 1):
        return _answer(context, request, _refuse_all(request, ErrorCode.INVALID_REQUIRED_ACKS), ())
    error = _check_transactional(request)
    if error is not None:
        return _answer(context, request, _refuse_all(request, error), ())
    if request.transactional_id is not None and context.api_version >= _V2_SINCE:
        added = _add_partitions(context, request, request.transactional_id)
        if added is not None:
            return added.map(lambda refusal: _append_all(context, request, refusal))
    return _append_all(context, request, None)


def handle_large(context: RequestContext, request: ProduceRequest) -> Any:
    """Handle a large request: most have few partitions, and much data in each."""
    partition_count = 0
    for topic in request.topic_data:
        partition_count += 1 + len(topic.partition_data)
    if partition_count <= _PARTITIONS_AT_ONCE:
        context.in_slices = False
        return handle(context, request)
    return context.run(_append_in_slices(context, request, partition_count))


def _append_in_slices(context: RequestContext, request: ProduceRequest, partition_count: int) -> Sliced[Answer]:
    """Append some partitions in each turn, each independent of the others."""
    if request.acks not in (-1, 0, 1):
        return _answer(context, request, _refuse_all(request, ErrorCode.INVALID_REQUIRED_ACKS), ())
    error = _check_transactional(request)
    yield partition_count // 8
    if error is not None:
        return _answer(context, request, _refuse_all(request, error), ())
    refusal: ErrorCode | None = None
    if request.transactional_id is not None and context.api_version >= _V2_SINCE:
        added = _add_partitions(context, request, request.transactional_id)
        if added is not None:
            yield added
            refusal = added.result()
    return (yield from _append_rest(context, request, refusal, [], [], []))


def _append_rest(
    context: RequestContext,
    request: ProduceRequest,
    refusal: ErrorCode | None,
    responses: list[TopicProduceResponse],
    partitions: list[PartitionProduceResponse],
    waits: list[_Wait],
) -> Sliced[Answer]:
    """Append the rest after these topics, and after these partitions of the next one."""
    for topic in request.topic_data[len(responses) :]:
        name = asked_topic(context, topic)
        for data in topic.partition_data[len(partitions) :]:
            config: LogConfig | None = None
            is_first = False
            try:
                is_first = _append(context, request, name, data, refusal, partitions, waits)
            except LongBatch as long:
                config = long.config
            if config is not None:
                is_first = yield from _append_long(context, request, name, data, refusal, partitions, waits, config)
            yield _FIRST_APPEND_ELEMENTS if is_first else _APPEND_ELEMENTS
        responses.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions))
        partitions = []
        yield 1
    return _answer(context, request, responses, waits)


def _append_all(
    context: RequestContext, request: ProduceRequest, refusal: ErrorCode | None
) -> Answer | Completion[Answer]:
    """Append all partitions. `refusal` is why some could not be added to the transaction, for those that are not in
    it."""
    responses: list[TopicProduceResponse] = []
    waits: list[_Wait] = []
    first_appends = 0
    for topic in request.topic_data:
        name = asked_topic(context, topic)
        partitions: list[PartitionProduceResponse] = []
        for data in topic.partition_data:
            try:
                if not _append(context, request, name, data, refusal, partitions, waits):
                    continue
                first_appends += 1
                if first_appends < _FIRST_APPENDS_AT_ONCE:
                    continue
            except LongBatch:
                pass  # in turns, as what is left of many
            rest = _append_rest(context, request, refusal, responses, partitions, waits)
            answered: Answer | Completion[Answer] = context.run(rest)
            return answered
        responses.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions))
    return _answer(context, request, responses, waits)


def _answer(
    context: RequestContext,
    request: ProduceRequest,
    responses: list[TopicProduceResponse],
    waits: list[_Wait] | tuple[()],
) -> Answer:
    if request.acks == 0:
        for topic in responses:
            for partition in topic.partition_responses:
                if partition.error_code:
                    code = ErrorCode(partition.error_code).name
                    name = topic.name or topic.topic_id
                    raise CloseConnection(f"Produce with acks=0 to {name}-{partition.index} failed with {code}")
        return None
    response = ProduceResponse(responses=responses)
    transactional_id = request.transactional_id
    if not waits or (transactional_id is not None and _may_answer_ahead(context, transactional_id, waits)):
        return response
    durable = [_when_durable(wait) for wait in waits]
    ended = durable[0] if len(durable) == 1 else all_of(durable)
    return Pipelined(ended, lambda done: response if done.error is None else _with_errors(response, waits, durable))


def _when_durable(wait: _Wait) -> Completion[None]:
    log, next_offset, is_duplicate, _, _ = wait
    if is_duplicate:
        log.start_round()  # the original may have been answered ahead
    durable: Completion[None] = Completion()
    log.complete_when_durable(durable, None, next_offset)
    return durable


def _may_answer_ahead(context: RequestContext, transactional_id: str, waits: Sequence[_Wait]) -> bool:
    """Whether the response may come before durability: what a transaction writes need not be durable before its end
    is."""
    for _, _, is_duplicate, _, _ in waits:
        if is_duplicate:
            return False
    if not context.broker.transactions.answer_ahead(transactional_id, len(waits)):
        return False
    for log, next_offset, _, _, _ in waits:
        log.note_answered(next_offset)
    return True


def _with_errors(
    response: ProduceResponse, waits: Sequence[_Wait], durable: Sequence[Completion[None]]
) -> ProduceResponse:
    """Return the response, in which partitions whose topic was deleted meanwhile have their error. Raises any other
    error."""
    for (_, _, _, answers, slot), completion in zip(waits, durable, strict=True):
        error = completion.error
        if error is not None:
            if not isinstance(error, KafkaError):
                raise error
            answers[slot] = _error(answers[slot].index, error)
    return response


def _append_long(
    context: RequestContext,
    request: ProduceRequest,
    name: str | None,
    data: PartitionProduceData,
    refusal: ErrorCode | None,
    answers: list[PartitionProduceResponse],
    waits: list[_Wait],
    config: LogConfig,
) -> Sliced[bool]:
    """Do as `_append` for a batch that takes long to open; again, if the topic's settings change meanwhile."""
    from oncelog.broker.log.opening import opened

    batch = data.records
    while isinstance(batch, memoryview):
        try:
            ready = yield from opened(batch, config, context.broker.clock.wall_ms(), context.broker.slices)
        except KafkaError as error:
            answers.append(_error_response(context, data.index, error))
            return False
        try:
            return _append(context, request, name, data, refusal, answers, waits, ready)
        except LongBatch as long:
            config = long.config
    return False


def _append(
    context: RequestContext,
    request: ProduceRequest,
    name: str | None,
    data: PartitionProduceData,
    refusal: ErrorCode | None,
    answers: list[PartitionProduceResponse],
    waits: list[_Wait],
    opened: "OpenedBatch | None" = None,
) -> bool:
    """Adds the response to `answers`, and what it has to wait for to `waits`; returns whether this may have been the
    partition's first append. Raises LongBatch, and then has done nothing."""
    broker = context.broker
    batch = data.records
    log: PartitionLog | None = None
    try:
        log = _log_of(context, name, data.index)
        if not isinstance(batch, memoryview):
            raise KafkaError(ErrorCode.INVALID_RECORD, "the partition has no record batch")
        if context.api_version < 7 and len(batch) > FLAGS_AT and batch[FLAGS_AT] & COMPRESSION_MASK == _ZSTD:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7")
        if request.transactional_id is not None:
            _verify(context, request.transactional_id, log, batch, refusal)
        wall_ms = broker.clock.wall_ms()
        appended = log.append(batch, wall_ms=wall_ms, transaction_version=_version_of(context), opened=opened)
    except KafkaError as error:
        if log is not None and request.transactional_id is not None:
            _note_refused(context, log, batch)
        answers.append(_error_response(context, data.index, error))
        return False
    broker.metrics.appends += 1
    broker.metrics.append_bytes += len(batch)
    base_offset, last_offset, log_append_time_ms, log_start_offset, is_duplicate = appended
    broker.metrics.duplicate_batches += is_duplicate
    if request.acks and not log.is_durable(last_offset + 1):
        waits.append((log, last_offset + 1, is_duplicate, answers, len(answers)))
    answers.append(PartitionProduceResponse(data.index, 0, base_offset, log_append_time_ms, log_start_offset))
    return base_offset == 0


def _log_of(context: RequestContext, name: str | None, index: int) -> PartitionLog:
    """Raises KafkaError."""
    if name is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    log = context.broker.topics.partition(name, index)
    if name in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"clients may not write to {name}")
    return log


def _error_response(context: RequestContext, index: int, error: KafkaError) -> PartitionProduceResponse:
    code = error.code
    metrics = context.broker.metrics
    metrics.rejected_batches[code.name] += 1
    if code is ErrorCode.INVALID_PRODUCER_EPOCH:
        metrics.producers_fenced[code.name] += 1
    bad_records: Sequence[BatchIndexAndErrorMessage] = ()
    if isinstance(error, InvalidRecordsError):
        bad_records = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=text)
            for at, text in error.record_errors
        ]
    return _error(index, error, bad_records)


def _error(
    index: int, error: KafkaError, bad_records: Sequence[BatchIndexAndErrorMessage] = ()
) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        record_errors=bad_records,
        error_message=error.message or None,
    )


def _add_partitions(
    context: RequestContext, request: ProduceRequest, transactional_id: str
) -> Completion[ErrorCode | None] | None:
    """Adds the partitions that the transaction lacks; None if there are none."""
    broker = context.broker
    missing: list[tuple[str, int]] = []
    producer_id = producer_epoch = -1
    for topic in request.topic_data:
        name = asked_topic(context, topic)
        for data in topic.partition_data:
            log = None if name is None or name in INTERNAL_TOPICS else broker.topics.find_partition(name, data.index)
            batch = data.records
            if log is None or not isinstance(batch, memoryview) or not is_framed(batch):
                continue
            if not batch[FLAGS_AT] & TRANSACTIONAL_MASK:
                continue
            producer_id, producer_epoch = _producer(batch)
            if not log.has_open_transaction(producer_id, producer_epoch) and not log.is_over(
                producer_id, producer_epoch
            ):
                missing.append((log.topic, log.partition))
    if not missing:
        return None
    added = broker.transactions.add_partitions_implicitly(transactional_id, producer_id, producer_epoch, missing)
    return added.map(lambda _: None, lambda error: error.code)


def _producer(batch: bytes | memoryview) -> tuple[int, int]:
    producer_id = int.from_bytes(batch[PRODUCER_ID_AT:PRODUCER_EPOCH_AT], "big", signed=True)
    return producer_id, int.from_bytes(batch[PRODUCER_EPOCH_AT:BASE_SEQUENCE_AT], "big", signed=True)


def _verify(
    context: RequestContext, transactional_id: str, log: PartitionLog, batch: memoryview, refusal: ErrorCode | None
) -> None:
    """Raise KafkaError if this is the first batch of a transaction on a partition that is not in the transaction."""
    if not (is_framed(batch) and batch[FLAGS_AT] & TRANSACTIONAL_MASK):
        return
    producer_id, producer_epoch = _producer(batch)
    if log.has_open_transaction(producer_id, producer_epoch):
        # The right was asked for the transactional id, the transaction is found by the producer id.
        broker = context.broker
        is_bound = broker.authorizer is not None and broker.compatibility.binds_producer_ids
        if is_bound and not broker.transactions.owns_producer(transactional_id, producer_id):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the transaction belongs to another transactional id"
            )
        return
    if log.is_over(producer_id, producer_epoch):
        raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, "a later epoch of the producer has written here")
    error = refusal or context.broker.transactions.verify_partitions(
        transactional_id,
        producer_id,
        producer_epoch,
        ((log.topic, log.partition),),
    )
    if error:
        raise KafkaError(_verification_error(error, context.api_version), "the partition is not in the transaction")


def _note_refused(context: RequestContext, log: PartitionLog, batch: bytes | memoryview | None) -> None:
    """Note a refused batch, so that a later one does not overtake the retry of one that would have opened a
    transaction."""
    if not (isinstance(batch, memoryview) and is_framed(batch) and batch[FLAGS_AT] & TRANSACTIONAL_MASK):
        return
    producer_id, producer_epoch = _producer(batch)
    if not log.has_open_transaction(producer_id, producer_epoch) and not log.is_over(producer_id, producer_epoch):
        base_sequence = int.from_bytes(batch[BASE_SEQUENCE_AT : BASE_SEQUENCE_AT + 4], "big", signed=True)
        monotonic_ms = context.broker.clock.monotonic_ms()
        log.producer_state.note_refused(producer_id, producer_epoch, base_sequence, _version_of(context), monotonic_ms)


def _version_of(context: RequestContext) -> int:
    """Return the version of the transaction that a batch belongs to, if it belongs to one."""
    return TRANSACTION_V2 if context.api_version >= _V2_SINCE else 0


def _verification_error(error: ErrorCode, api_version: int) -> ErrorCode:
    """Return the producer's error for a failed verification (Kafka's AddPartitionsToTxnManager and ReplicaManager)."""
    match error:
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE if api_version < 11:
            return ErrorCode.INVALID_TXN_STATE
        case ErrorCode.CONCURRENT_TRANSACTIONS if api_version >= _V2_SINCE:
            return error
        case (
            ErrorCode.CONCURRENT_TRANSACTIONS
            | ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            | ErrorCode.COORDINATOR_NOT_AVAILABLE
            | ErrorCode.NOT_COORDINATOR
        ):
            # Retriable for every client; none of them handles the coordinator's codes here.
            return ErrorCode.NOT_ENOUGH_REPLICAS
        case _:
            return error


def _check_transactional(request: ProduceRequest) -> ErrorCode | None:
    producer_ids: set[bytes] = set()
    for topic in request.topic_data:
        for partition in topic.partition_data:
            batch = partition.records
            if batch and len(batch) >= HEADER_SIZE and batch[FLAGS_AT] & TRANSACTIONAL_MASK:
                if batch[MAGIC_AT] != MAGIC:
                    continue
                if request.transactional_id is None:
                    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                producer_ids.add(bytes(batch[PRODUCER_ID_AT:PRODUCER_EPOCH_AT]))
    return ErrorCode.INVALID_PRODUCER_ID_MAPPING if len(producer_ids) > 1 else None


def _refuse_all(request: ProduceRequest, error: ErrorCode) -> list[TopicProduceResponse]:
    return [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[
                PartitionProduceResponse(index=data.index, error_code=error, base_offset=-1)
                for data in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
