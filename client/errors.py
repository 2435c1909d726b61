"""What the client raises: four kinds (KIP-1050), each with a hint that says what to do.

Owns: the classes, and the table from the protocol's codes to them. Does not own: retries, which happen before any of
these is seen. Invariant: whatever the client raises about a broker's answer is one of the four kinds.

`RetriableError`: the same call may succeed later. `AbortableError`: abort the transaction (or rewind) and start again.
`FatalError`: this producer or consumer is of no more use. `ConfigError`: change the settings or the arguments.
"""

from typing import ClassVar, Literal

from oncelog.protocol.errors import ErrorCode


class KafkaError(Exception):
    """Base of all. `code` is the broker's, or None when no broker was asked or none answered."""

    retriable: ClassVar[bool] = False
    abortable: ClassVar[bool] = False
    fatal: ClassVar[bool] = False
    default_hint: ClassVar[str] = ""

    def __init__(self, message: str = "", *, code: ErrorCode | None = None, hint: str = "") -> None:
        self.code = code
        self.hint = hint or self.default_hint
        text = message or (code.text if code is not None else "") or type(self).__name__
        if code is not None:
            text = f"{code.name}: {text}"
        self.message = text
        """Without the hint."""
        super().__init__(f"{text} ({self.hint})" if self.hint else text)

    @property
    def name(self) -> str:
        """The protocol's name of the code, or the class's."""
        return self.code.name if self.code is not None else type(self).__name__


class RetriableError(KafkaError):
    retriable = True


class AbortableError(KafkaError):
    abortable = True


class FatalError(KafkaError):
    fatal = True


class ConfigError(KafkaError):
    """A setting or an argument is wrong; nothing was sent, or the broker refused the request for what it is."""


class ConnectionLost(RetriableError):
    default_hint = "is a broker listening there, and is its advertised listener reachable from here?"


class RequestTimedOut(RetriableError):
    default_hint = "the deadline passed before an answer came"


class QueueFull(RetriableError):
    default_hint = "buffer.memory is full: await the deliveries, or raise buffer_memory"


class CommitUnknown(RetriableError):
    """EndTxn was sent and no answer came in time: the transaction may be committed. Only commit() may follow."""

    default_hint = "call commit() again until it answers; never abort what may be committed"


class DeliveryTimeout(AbortableError):
    default_hint = "delivery.timeout.ms passed; the record may or may not be written"


class OutOfOrderSequence(AbortableError):
    default_hint = "an earlier batch of this producer is missing in the log"


class TransactionAborted(AbortableError):
    default_hint = "the transaction of this record was aborted"


class CommitFailed(AbortableError):
    """The group gave the partitions to somebody else: the offsets were not committed."""

    default_hint = "poll again: the group is rebalancing, and uncommitted records come again"


class NoOffsetForPartition(AbortableError):
    default_hint = "seek(), or set auto_offset_reset to 'earliest' or 'latest'"


class CorruptBatch(AbortableError):
    default_hint = "the bytes in the log or on the wire are damaged; seek past them to go on"


class InvalidState(FatalError):
    """The call does not fit the state: not opened, closed, no transaction, a transaction already open."""


class ProducerFenced(FatalError):
    """This producer's epoch is over; its transaction was aborted by the coordinator, or will be.

    `by`: "instance" when another producer with the same transactional id must have started, "unknown" when it may also
    have been the transaction timeout. `commit_unknown`: a commit had been sent before, so its outcome is not known.
    """

    default_hint = (
        "another producer with this transactional id took over, or the transaction timed out: stop, or start anew"
    )

    def __init__(
        self,
        message: str = "",
        *,
        code: ErrorCode | None = None,
        hint: str = "",
        by: Literal["instance", "unknown"] = "unknown",
        commit_unknown: bool = False,
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.by: Literal["instance", "unknown"] = by
        self.commit_unknown = commit_unknown


_CLASSES: dict[ErrorCode, type[KafkaError]] = {
    ErrorCode.REQUEST_TIMED_OUT: RequestTimedOut,
    ErrorCode.NETWORK_EXCEPTION: ConnectionLost,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: OutOfOrderSequence,
    ErrorCode.UNKNOWN_PRODUCER_ID: OutOfOrderSequence,
    ErrorCode.INVALID_PRODUCER_EPOCH: ProducerFenced,
    ErrorCode.PRODUCER_FENCED: ProducerFenced,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: FatalError,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: FatalError,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: FatalError,
    ErrorCode.INVALID_TXN_STATE: FatalError,
    ErrorCode.UNSUPPORTED_VERSION: FatalError,
    ErrorCode.FENCED_INSTANCE_ID: FatalError,
    ErrorCode.ILLEGAL_GENERATION: CommitFailed,
    ErrorCode.UNKNOWN_MEMBER_ID: CommitFailed,
    ErrorCode.REBALANCE_IN_PROGRESS: CommitFailed,
    ErrorCode.STALE_MEMBER_EPOCH: CommitFailed,
    ErrorCode.CORRUPT_MESSAGE: CorruptBatch,
    ErrorCode.UNKNOWN_SERVER_ERROR: AbortableError,
    ErrorCode.MESSAGE_TOO_LARGE: AbortableError,
    ErrorCode.RECORD_LIST_TOO_LARGE: AbortableError,
    ErrorCode.INVALID_RECORD: AbortableError,
    ErrorCode.INVALID_TIMESTAMP: AbortableError,
    ErrorCode.TRANSACTION_ABORTABLE: AbortableError,
    ErrorCode.OFFSET_OUT_OF_RANGE: NoOffsetForPartition,
}

_HINTS: dict[ErrorCode, str] = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (
        "on one broker, Apache Kafka needs transaction.state.log.replication.factor=1, transaction.state.log.min.isr=1 "
        "and offsets.topic.replication.factor=1"
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "create the topic, or allow auto.create.topics.enable on the broker",
    ErrorCode.MESSAGE_TOO_LARGE: "lower batch_size, or raise max.message.bytes of the topic",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "transaction_timeout_ms is above the broker's transaction.max.timeout.ms",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than the topic's min.insync.replicas",
}


def error_for(code: int, message: str = "") -> KafkaError:
    """The exception for a code that a broker answered."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return FatalError(f"the broker answered with an unknown error code {code}")
    kind = _CLASSES.get(known)
    if kind is None:
        kind = RetriableError if known.retriable else ConfigError
    return kind(message, code=known, hint=_HINTS.get(known, ""))


def raise_for(code: int, message: str = "") -> None:
    """Raise unless the code is NONE."""
    if code:
        raise error_for(code, message)
