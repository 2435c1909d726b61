"""Error responses, for requests that are not handled, and in place of a handler's response.

Owns: their form. Does not own: where an API has its errors (`broker.apis`). Invariant: a response has the structure
that its client expects: one row for each requested partition.
"""

from collections.abc import Iterator
from typing import Any

from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.handlers.shared.error_places import response_with
from oncelog.broker.requests.context import CloseConnection, Handler, RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.message import Message

_ERROR_FIELDS = ("error_code", "partition_error_code")


def has_place_for_error(api: ApiKey) -> bool:
    """Whether a response can have an error for a request that must not be handled. Some APIs that change one thing per
    row cannot: use the point `answer` for them."""
    return API_TABLE[api].on_fault != "no place"


def error_answer(context: RequestContext, request: Any, error: ErrorCode, handle: Handler) -> Any:
    """Return the response as an error; None for acks=0. Raises CloseConnection if it has no field for one."""
    api = ApiKey(context.api_key)
    match API_TABLE[api].on_fault:
        case "handled":
            return _refused(handle(context, request), error)
        case "refused":
            return _refusal(context, request, error)
    raise CloseConnection(f"a fault rule sets {error.name}, for which {api.name} has no field")


def _refused(outcome: Any, error: ErrorCode) -> Any:
    if isinstance(outcome, Completion):
        return outcome.map(lambda response: with_error(response, error))
    return with_error(outcome, error)


def _refusal(context: RequestContext, request: Any, error: ErrorCode) -> Any:
    api = context.api_key
    errors = API_TABLE[api].errors_in(context.api_version)
    said: dict[str, int] = {errors.field: error}
    if api == ApiKey.PRODUCE:
        if request.acks == 0:
            return None
        said["base_offset"] = -1
    return context.run(response_with(api, request, errors.of_whole, **said))


def with_error(response: Any, error: ErrorCode) -> Any:
    """Return the same response with `error` in every error field."""
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
    """Return the errors in a response, each once, in order."""
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
