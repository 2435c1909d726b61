"""How the coordinator's results and errors become responses, shared by the transaction handlers."""

from collections.abc import Callable
from typing import TypeVar

from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")
U = TypeVar("U")


def to_response(
    done: Completion[T],
    context: RequestContext,
    fenced_since: int,
    on_value: Callable[[T], U],
    on_error: Callable[[ErrorCode], U],
) -> Completion[U]:
    """Return the response for the coordinator's result; an unexpected error is passed on.

    Clients before `fenced_since` expect INVALID_PRODUCER_EPOCH for PRODUCER_FENCED (KIP-588).
    """

    def refused(error: KafkaError) -> U:
        is_unknown = error.code is ErrorCode.PRODUCER_FENCED and context.api_version < fenced_since
        return on_error(ErrorCode.INVALID_PRODUCER_EPOCH if is_unknown else error.code)

    return done.map(on_value, refused)
