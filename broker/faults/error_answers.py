"""Answers that say an error, for requests that nobody handled, and in place of what a handler answered.

Owns: where each API keeps its errors. Invariant: an answer has the shape that its client expects: a row for each
partition that was asked about.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from oncelog.broker.api_table import API_TABLE
from oncelog.broker.completion import Completion
from oncelog.broker.request import CloseConnection, Handler, RequestContext
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.message import Message

_ERROR_FIELDS = ("error_code", "partition_error_code")
_ERRORS_OF_ALL_SINCE = 4
"""AddPartitionsToTxn answers batches from this version on, with one error over all of them."""


_LOOKS = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
    }
)
"""They change nothing: handled, and each row of what they answer then says the error."""
_OWN_ROWS = frozenset({ApiKey.PRODUCE, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.OFFSET_COMMIT})


def has_place_for_error(api: ApiKey) -> bool:
    """Whether an answer can say an error for a request that nobody may handle. Some that change one thing for each row
    cannot: those are refused by the point `answer`."""
    return api in _LOOKS or api in _OWN_ROWS or "error_code" in _response(api).__slots__


def error_answer(context: RequestContext, request: Any, error: ErrorCode, handle: Handler) -> Any:
    """The response as a refusal; None for acks=0. Raises CloseConnection when there is no place for it."""
    api = ApiKey(context.api_key)
    if api in _LOOKS:
        return _refused(handle(context, request), error)
    if api not in _OWN_ROWS and "error_code" not in _response(api).__slots__:
        raise CloseConnection(f"a fault rule answers {error.name}, for which {api.name} has no place")
    return _refusal(context, request, error)


def _refused(outcome: Any, error: ErrorCode) -> Any:
    if isinstance(outcome, Completion):
        return outcome.map(lambda response: with_error(response, error))
    return with_error(outcome, error)


def _response(api: ApiKey) -> Any:
    module = import_module(f"oncelog.protocol.generated.{API_TABLE[api].name}_response")
    return getattr(module, module.NAME)


def _refusal(context: RequestContext, request: Any, error: ErrorCode) -> Any:
    match context.api_key:
        case ApiKey.PRODUCE:
            return None if request.acks == 0 else _produce(request, error)
        case ApiKey.ADD_PARTITIONS_TO_TXN if context.api_version < _ERRORS_OF_ALL_SINCE:
            return _add_partitions(request, error)
        case ApiKey.TXN_OFFSET_COMMIT | ApiKey.OFFSET_COMMIT:
            return _offsets(context.api_key, request, error)
    return _response(ApiKey(context.api_key))(error_code=error)


def _produce(request: Any, error: ErrorCode) -> Any:
    from oncelog.protocol.generated.produce_response import (
        PartitionProduceResponse,
        ProduceResponse,
        TopicProduceResponse,
    )

    return ProduceResponse(
        responses=[
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
    )


def _add_partitions(request: Any, error: ErrorCode) -> Any:
    from oncelog.protocol.generated.add_partitions_to_txn_response import (
        AddPartitionsToTxnPartitionResult,
        AddPartitionsToTxnResponse,
        AddPartitionsToTxnTopicResult,
    )

    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
                    for index in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
    )


def _offsets(api_key: int, request: Any, error: ErrorCode) -> Any:
    name = API_TABLE[api_key].name
    module = import_module(f"oncelog.protocol.generated.{name}_response")
    kind = module.NAME
    topics = []
    for topic in request.topics:
        partitions = [
            getattr(module, f"{kind}Partition")(partition_index=data.partition_index, error_code=error)
            for data in topic.partitions
        ]
        identity = {field: getattr(topic, field) for field in ("name", "topic_id") if field in topic.__slots__}
        topics.append(getattr(module, f"{kind}Topic")(partitions=partitions, **identity))
    return getattr(module, kind)(topics=topics)


def with_error(response: Any, error: ErrorCode) -> Any:
    """The same response, with `error` wherever it has a place for one."""
    if isinstance(response, list | tuple):
        return [with_error(part, error) for part in response]
    if not isinstance(response, Message):
        return response
    fields = {
        name: int(error) if name in _ERROR_FIELDS else with_error(getattr(response, name), error)
        for name in response.__slots__
    }
    return type(response)(**fields)


def error_names(response: Any) -> list[str]:
    """The errors that a response tells, each once, in order."""
    return list(dict.fromkeys(_error_names(response)))


def _error_names(response: Any) -> Iterator[str]:
    if isinstance(response, list | tuple):
        for part in response:
            yield from _error_names(part)
    elif isinstance(response, Message):
        for name in response.__slots__:
            value = getattr(response, name)
            if name in _ERROR_FIELDS and value:
                yield ErrorCode(value).name
            else:
                yield from _error_names(value)
