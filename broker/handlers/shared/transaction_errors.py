"""How the coordinator's answers and refusals become responses, shared by the transaction handlers."""

from collections.abc import Callable
from typing import TypeVar

from oncelog.broker.completion import Completion
from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")
U = TypeVar("U")


def answered(
    done: Completion[T],
    context: RequestContext,
    fenced_since: int,
    on_value: Callable[[T], U],
    on_error: Callable[[ErrorCode], U],
) -> Completion[U]:
    """The response to what the coordinator answers; an error that is no answer passes through.

    Clients before `fenced_since` know PRODUCER_FENCED as INVALID_PRODUCER_EPOCH (KIP-588).
    """
    answer: Completion[U] = Completion()

    def on_done(source: Completion[T]) -> None:
        error = source.error
        if error is None:
            answer.complete(on_value(source.result()))
        elif not isinstance(error, KafkaError):
            answer.fail(error)
        elif error.code is ErrorCode.PRODUCER_FENCED and context.api_version < fenced_since:
            answer.complete(on_error(ErrorCode.INVALID_PRODUCER_EPOCH))
        else:
            answer.complete(on_error(error.code))

    done.then(on_done)
    return answer
