"""Error responses, for requests that are not handled, and in place of a handler's response.

Owns: where each API has its errors. Invariant: a response has the structure that its client expects: one row for each
requested partition.
"""

from collections.abc import Iterator
from typing import Any

from oncelog.broker.completion import Completion
from oncelog.broker.handlers.shared.error_places import (
    COMMITTED,
    COMMITTED_IN_TRANSACTION,
    PRODUCED,
    Place,
    Rows,
    response_module,
    response_with,
)
from oncelog.broker.request import CloseConnection, Handler, RequestContext
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.message import Message

_ERROR_FIELDS = ("error_code", "partition_error_code")
_ERRORS_OF_ALL_SINCE = 4
"""AddPartitionsToTxn handles batches from this version on, with one error for all of them."""


_READS = frozenset(
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
"""Read-only APIs: the request is handled, and then the error is set in each row of the response."""
_PLACES: dict[int, Place] = {
    ApiKey.PRODUCE: PRODUCED,
    ApiKey.OFFSET_COMMIT: COMMITTED,
    ApiKey.TXN_OFFSET_COMMIT: COMMITTED_IN_TRANSACTION,
}
_ADDED_BEFORE = (
    Rows("v3_and_below_topics", "results_by_topic_v3_and_below", "AddPartitionsToTxnTopicResult", ("name",)),
    Rows("partitions", "results_by_partition", "AddPartitionsToTxnPartitionResult", ("partition_index",)),
)
"""In AddPartitionsToTxn before it handled batches."""


def has_place_for_error(api: ApiKey) -> bool:
    """Whether a response can have an error for a request that must not be handled. Some APIs that change one thing per
    row cannot: use the point `answer` for them."""
    return api in _READS or api in _PLACES or _has_error(api)


def error_answer(context: RequestContext, request: Any, error: ErrorCode, handle: Handler) -> Any:
    """The response as an error; None for acks=0. Raises CloseConnection if it has no field for one."""
    api = ApiKey(context.api_key)
    if api in _READS:
        return _refused(handle(context, request), error)
    if api not in _PLACES and not _has_error(api):
        raise CloseConnection(f"a fault rule sets {error.name}, for which {api.name} has no field")
    return _refusal(context, request, error)


def _refused(outcome: Any, error: ErrorCode) -> Any:
    if isinstance(outcome, Completion):
        return outcome.map(lambda response: with_error(response, error))
    return with_error(outcome, error)


def _has_error(api: ApiKey) -> bool:
    module = response_module(api)
    return "error_code" in getattr(module, module.NAME).FIELDS


def _refusal(context: RequestContext, request: Any, error: ErrorCode) -> Any:
    api = context.api_key
    place = _PLACES.get(api, ())
    said: dict[str, int] = {"error_code": error}
    if api == ApiKey.PRODUCE:
        if request.acks == 0:
            return None
        said["base_offset"] = -1
    elif api == ApiKey.ADD_PARTITIONS_TO_TXN and context.api_version < _ERRORS_OF_ALL_SINCE:
        place, said = _ADDED_BEFORE, {"partition_error_code": error}
    return context.run(response_with(api, request, place, **said))


def with_error(response: Any, error: ErrorCode) -> Any:
    """The same response, with `error` in every error field."""
    if isinstance(response, list | tuple):
        return [with_error(part, error) for part in response]
    if not isinstance(response, Message):
        return response
    fields = {
        name: int(error) if name in _ERROR_FIELDS else with_error(getattr(response, name), error)
        for name in response.FIELDS
    }
    return type(response)(**fields)


def error_names(response: Any) -> list[str]:
    """The errors in a response, each once, in order."""
    return list(dict.fromkeys(_error_names(response)))


def _error_names(response: Any) -> Iterator[str]:
    if isinstance(response, list | tuple):
        for part in response:
            yield from _error_names(part)
    elif isinstance(response, Message):
        for name in response.FIELDS:
            value = getattr(response, name)
            if name in _ERROR_FIELDS and value:
                yield ErrorCode(value).name
            else:
                yield from _error_names(value)
