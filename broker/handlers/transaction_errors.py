"""How the coordinator's refusals look to clients of different ages, shared by the transaction handlers."""

from broker.dispatch import RequestContext
from protocol.errors import ErrorCode, KafkaError


def code_of(context: RequestContext, error: Exception, fenced_since: int) -> ErrorCode:
    """The code to answer: clients before `fenced_since` know PRODUCER_FENCED as INVALID_PRODUCER_EPOCH (KIP-588).

    Anything but a KafkaError is raised: it is no answer.
    """
    if not isinstance(error, KafkaError):
        raise error
    if error.code is ErrorCode.PRODUCER_FENCED and context.api_version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code
