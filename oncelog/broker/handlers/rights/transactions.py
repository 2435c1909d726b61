"""Steps of requests of producers and about transactions.

Owns: what a producer needs to write. Does not own: the handlers.
"""

from collections.abc import Sequence
from typing import Any

from oncelog.broker.apis.descriptor import Needed, Right
from oncelog.broker.handlers.rights.checks import (
    DENIED,
    after,
    errors_of,
    is_given,
    joined,
    may,
    refuse,
    replaced,
    split,
)
from oncelog.broker.handlers.shared.asked_topics import asked_topic
from oncelog.broker.handlers.shared.error_places import response_with
from oncelog.broker.requests.context import CloseConnection, Handler, RequestContext
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.acls import AclOperation, ResourceType
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.records.batch import FLAGS_AT, HEADER_SIZE, MAGIC, MAGIC_AT, TRANSACTIONAL_MASK
from oncelog.protocol.topics import INTERNAL_TOPICS

_TOPIC, _ID = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID
_WRITE, _DESCRIBE = AclOperation.WRITE, AclOperation.DESCRIBE
_NO_PRODUCER = {"producer_id": -1, "producer_epoch": -1}
_BY_BROKERS_SINCE = 4


class Writing:
    """Produce: Write on each topic, and on the transactional id if there are transactional records."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        transactional_id = request.transactional_id
        if (
            transactional_id is not None
            and _is_transactional(request)
            and not may(context, _WRITE, _ID, transactional_id)
        ):
            yield 1
            return (yield from _refuse(context, request, DENIED[_ID]))
        allowed, denied = yield from split(context, request.topic_data, Right(_WRITE, _TOPIC), asked_topic)
        if not denied:
            return handle(context, request)
        outcome = handle(context, replaced(request, topic_data=allowed)) if allowed else None
        refused = yield from _refuse(context, replaced(request, topic_data=denied), DENIED[_TOPIC])
        return refused if outcome is None else after(outcome, lambda response: joined(response, refused, "responses"))


def _is_transactional(request: Any) -> bool:
    for topic in request.topic_data:
        for partition in topic.partition_data:
            batch = partition.records
            is_batch = batch is not None and len(batch) >= HEADER_SIZE and batch[MAGIC_AT] == MAGIC
            if is_batch and batch[FLAGS_AT] & TRANSACTIONAL_MASK:
                return True
    return False


def _refuse(context: RequestContext, request: Any, error: ErrorCode) -> Sliced[Any]:
    if request.acks == 0:
        raise CloseConnection(f"Produce with acks=0 failed with {error.name}")
    return (
        yield from response_with(context.api_key, request, errors_of(context).rows, error_code=error, base_offset=-1)
    )


class NewProducer:
    """InitProducerId: Write on the transactional id; without one IdempotentWrite, or Write on any topic."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        error = self._error(context, request)
        if error is ErrorCode.NONE:
            return handle(context, request)
        return (yield from response_with(context.api_key, request, (), error_code=error, **_NO_PRODUCER))

    def _error(self, context: RequestContext, request: Any) -> ErrorCode:
        name = request.transactional_id
        if name is None:
            is_allowed = may(context, AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, quietly=True) or may(
                context, _WRITE, _TOPIC, None
            )
            return ErrorCode.NONE if is_allowed else DENIED[ResourceType.CLUSTER]
        prepares = request.enable2_pc
        if may(context, _WRITE, _ID, name) and (not prepares or may(context, AclOperation.TWO_PHASE_COMMIT, _ID, name)):
            return ErrorCode.NONE
        return DENIED[_ID]


class Adding:
    """AddPartitionsToTxn: of clients Write on the transactional id and on every topic, of brokers ClusterAction. One
    partition that is refused refuses all."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        if context.api_version >= _BY_BROKERS_SINCE:
            needed = Needed(AclOperation.CLUSTER_ACTION)
            if is_given(needed, context, request):
                return handle(context, request)
            return (yield from refuse(needed, context, request))
        topics = request.v3_and_below_topics
        if not may(context, _WRITE, _ID, request.v3_and_below_transactional_id):
            return (yield from self._refuse(context, topics, {}, DENIED[_ID]))
        errors: dict[str, ErrorCode] = {}
        for row in topics:
            yield 1
            if row.name in INTERNAL_TOPICS or not may(context, _WRITE, _TOPIC, row.name):
                errors[row.name] = DENIED[_TOPIC]
        if not errors:
            return handle(context, request)
        return (yield from self._refuse(context, topics, errors, ErrorCode.OPERATION_NOT_ATTEMPTED))

    def _refuse(
        self, context: RequestContext, topics: Sequence[Any], errors: dict[str, ErrorCode], others: ErrorCode
    ) -> Sliced[Any]:
        from oncelog.protocol.generated.add_partitions_to_txn_response import (
            AddPartitionsToTxnPartitionResult,
            AddPartitionsToTxnResponse,
            AddPartitionsToTxnTopicResult,
        )

        def error_of(name: str, index: int) -> ErrorCode:
            if name in errors:
                return errors[name]
            is_missing = bool(errors) and not context.broker.topics.has_partition(name, index)
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_missing else others

        results = []
        for row in topics:
            partitions = [
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error_of(row.name, index))
                for index in row.partitions
            ]
            results.append(AddPartitionsToTxnTopicResult(name=row.name, results_by_partition=partitions))
            yield 1 + len(partitions)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


class DescribedTopics:
    """DescribeTransactions: of a transaction's partitions those of topics with Describe."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        yield 1
        return after(handle(context, request), lambda response: context.run(self._shown(context, response)))

    def _shown(self, context: RequestContext, response: Any) -> Sliced[Any]:
        states = []
        for state in response.transaction_states:
            topics = [row for row in state.topics if may(context, _DESCRIBE, _TOPIC, row.topic, quietly=True)]
            states.append(replaced(state, topics=topics))
            yield 1 + len(state.topics)
        return replaced(response, transaction_states=states)
