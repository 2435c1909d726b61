"""What a page may meet, and what is said of it: pure.

Owns: the errors that a page expects, the status of each, the values of the template `trouble`. Any other error is a
bug.
"""

from oncelog.client.values.errors import ConfigError, ConnectionLost, KafkaError, RequestTimedOut
from oncelog.console.holding import FaultsUnavailable
from oncelog.console.query import BadQuery
from oncelog.protocol.errors import ErrorCode, ProtocolError
from oncelog.tools.asking import NotFound
from oncelog.tools.txn.operations import AlreadyDecided
from oncelog.witness import WitnessUnavailable


class ReadOnly(Exception):
    """Raised if this console may not do what was asked; the message says by which option."""


EXPECTED = (KafkaError, ProtocolError, OSError, NotFound, BadQuery, ReadOnly, WitnessUnavailable, FaultsUnavailable)
UNREACHABLE = 502
_TITLES = {
    400: "That address cannot be read",
    403: "Not allowed here",
    404: "Not there",
    409: "Decided already",
    UNREACHABLE: "The cluster does not respond",
}
_NOT_THERE = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    )
)


def status_of(error: Exception) -> int:
    """Return the HTTP status for an error: UNREACHABLE if a retry may help."""
    match error:
        case ReadOnly():
            return 403
        case BadQuery():
            return 400
        case AlreadyDecided():
            return 409
        case NotFound():
            return 404
        case (
            ConnectionLost()
            | RequestTimedOut()
            | OSError()
            | ProtocolError()
            | WitnessUnavailable()
            | FaultsUnavailable()
        ):
            return UNREACHABLE
        case KafkaError() if error.code in _NOT_THERE:
            return 404
        case ConfigError():
            return 400
    return 500


def trouble_of(error: Exception) -> dict[str, object]:
    message, hint = (error.message, error.hint) if isinstance(error, KafkaError) else (str(error), "")
    status = status_of(error)
    title = _TITLES.get(status, "The cluster refused")
    # Addresses beside the cluster's, which may respond all the while.
    if isinstance(error, WitnessUnavailable):
        title = "The witness cannot be asked"
    if isinstance(error, FaultsUnavailable):
        title = "The broker's port for faults refuses, or does not respond"
    return {"title": title, "status": status, "message": message, "hint": hint}
