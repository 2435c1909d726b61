"""The exceptions of the client: four kinds (KIP-1050), each with a hint about what to do.

Owns: the classes, and the table from protocol error codes to them. Does not own: retries, which happen before any of
these is raised. Invariant: an exception about a broker's response is always one of the four kinds.

`RetriableError`: the same call may succeed later. `AbortableError`: abort the transaction (or rewind) and start again.
`FatalError`: this producer or consumer cannot be used any more. `ConfigError`: change the settings or the arguments.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, ClassVar, Literal

from oncelog.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from oncelog.client.values.records import Record, TopicPartition

FencedBy = Literal["instance", "timeout", "operator", "unknown"]


class KafkaError(Exception):
    """Base class of all the client's exceptions. `code` is the broker's error code, or None if no broker responded;
    `hint` says what to do; `retriable`, `abortable` and `fatal` classify the error (KIP-1050).

        except KafkaError as error:
            if not error.retriable:
                raise
    """

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
        """The text without the hint."""
        super().__init__(f"{text} ({self.hint})" if self.hint else text)

    @property
    def name(self) -> str:
        """The protocol's name of the code, or the class name."""
        return self.code.name if self.code is not None else type(self).__name__


class RetriableError(KafkaError):
    """A transient failure: the same call may succeed later."""

    retriable = True


class AbortableError(KafkaError):
    """The current transaction (or position) has failed: abort or rewind, then start again with the same client."""

    abortable = True
    default_hint = "abort the transaction, which leaving its block does, or seek; then start again"


class FatalError(KafkaError):
    """This client cannot continue: close it."""

    fatal = True


class ConfigError(KafkaError):
    """An invalid setting or argument: nothing was sent, or the broker rejected the request itself."""


class UnknownTopic(ConfigError):
    """The topic does not exist, and the broker did not create it."""


class ConnectionLost(RetriableError):
    """No connection to the broker could be made, or it broke before the response arrived."""

    default_hint = "is a broker listening there, and is its advertised listener reachable from here?"


class RequestTimedOut(RetriableError):
    """The deadline passed before a response arrived; the request may or may not have taken effect."""

    default_hint = "the broker is stopped, busy or out of reach: look at its log, or allow more time"


class QueueFull(RetriableError):
    """No buffer space for a record within max.block.ms."""

    default_hint = "buffer.memory is full: await the deliveries, or raise buffer_memory"


class CommitUnknown(RetriableError):
    """EndTxn was sent and no response arrived in time: the transaction may be committed. Only commit() may follow."""

    default_hint = "call commit() again until it returns; never abort what may be committed"


class SerializationError(ConfigError):
    """A serializer raised: the record was not sent. `__cause__` is its exception."""

    default_hint = "pass what the serializer takes, or another serializer"


class DeserializationError(AbortableError):
    """A deserializer raised. The position stays at this record, so that it is returned with another deserializer, or to
    another consumer; seek past it to continue. A `ShareConsumer` releases it, and continues with the next.
    `__cause__` is the deserializer's exception.

        except DeserializationError as error:
            await producer.send("dead-letters", error.record.value, key=error.record.key)
            consumer.seek(error.topic_partition, error.offset + 1)
    """

    def __init__(self, message: str, *, record: "Record") -> None:
        self.record = record
        """The record as it is in the log, with bytes."""
        place = f"{record.topic}-{record.partition} at offset {record.offset}"
        hint = f"to skip it: seek({record.topic_partition!r}, {record.offset + 1})"
        super().__init__(f"{place}: {message}", hint=hint)

    def _release(self) -> None:
        """Note that a share group delivers the record again, and has no position to seek from."""
        self.hint = 'to have it never again, with explicit acknowledgement: acknowledge(error.record, "reject")'
        self.args = (f"{self.message} ({self.hint})",)

    @property
    def topic_partition(self) -> "TopicPartition":
        """The partition that has the record."""
        return self.record.topic_partition

    @property
    def offset(self) -> int:
        """The record's offset, at which the consumer stays."""
        return self.record.offset


class DeliveryTimeout(AbortableError):
    """A record was not acknowledged within delivery.timeout.ms."""

    default_hint = "delivery.timeout.ms passed: it may have been written, so sending it again may double it"


class OutOfOrderSequence(AbortableError):
    """The log is missing an earlier batch of this producer, so it rejected this one."""

    default_hint = "an earlier batch of this producer is missing from the log: abort, and send both again"


class TransactionAborted(AbortableError):
    """The record was dropped because its transaction was aborted."""

    default_hint = "its transaction was aborted: send it again in the next one"


class AcknowledgementFailed(AbortableError):
    """The record is not this member's any more: its acquisition lock ended first, or its session with the leader did.
    It is delivered again, maybe to another member, unless one has acknowledged it."""

    default_hint = "process records within the lock's duration (share.record.lock.duration.ms), or renew them"


class CommitFailed(AbortableError):
    """The group reassigned the partitions: the offsets were not committed."""

    default_hint = "poll again: the group is rebalancing, and uncommitted records will be delivered again"


class NoOffsetForPartition(AbortableError):
    """The partition has no valid position, and auto_offset_reset is "error"."""

    default_hint = "seek(), or set auto_offset_reset to 'earliest' or 'latest'"


class CorruptBatch(AbortableError):
    """A batch failed its checksum or could not be decoded."""

    default_hint = "bytes in the log or on the network are damaged; seek past them to continue"


class AuthenticationFailed(FatalError):
    """The broker did not accept this client's identity, or the client the broker's. It is not tried again."""


class InvalidState(FatalError):
    """The call does not fit the state: not opened, closed, no transaction, a transaction already open; or it came from
    another event loop than the client was opened in."""


class ProducerFenced(FatalError):
    """Another producer has taken over this transactional id, or the transaction was open for too long: the coordinator
    has aborted it, or will.

    `by`: "instance" if another producer with the same transactional id has started, "timeout" if the coordinator
    aborted a transaction that was open for too long, "operator" if `Admin.fence_producer` or `oncelog txn fence` did
    it, "unknown" if it may have been any of them. Leaving the transaction's block asks the coordinator, so inside the
    block it is "unknown". `commit_unknown`: a commit had been sent, so its outcome is not known.
    """

    default_hint = "let the other one work, or create a new producer, which takes the id back"
    _happened: ClassVar[dict[FencedBy, str]] = {
        "unknown": "another producer has taken over this transactional id, or the transaction was open for too long",
        "instance": "another producer has taken over this transactional id",
        "timeout": "the transaction was open for too long",
        "operator": "an operator has fenced this transactional id",
    }
    _hints: ClassVar[dict[FencedBy, str]] = {
        "instance": "if it is a second instance: stop this one, or give each its own id",
        "timeout": "make shorter ones, or raise transaction_timeout_ms",
        "operator": "a new producer may take it again",
    }

    def __init__(
        self,
        message: str = "",
        *,
        code: ErrorCode | None = None,
        hint: str = "",
        by: FencedBy = "unknown",
        commit_unknown: bool = False,
    ) -> None:
        # What happened comes first, and the protocol's word for it last: a restart fences as well, and is no alarm.
        super().__init__(self._said(message or self._happened[by], code), hint=hint or self._hints.get(by, ""))
        self.code = code
        self.by: FencedBy = by
        self.commit_unknown = commit_unknown

    def _attribute_to(self, by: FencedBy) -> None:
        """Set the cause of the fence, as the coordinator reported it."""
        self.by, self.hint = by, self._hints.get(by, self.hint)
        self.message = self._said(self._happened[by], self.code)
        self.args = (f"{self.message} ({self.hint})",)

    @staticmethod
    def _said(happened: str, code: ErrorCode | None) -> str:
        return happened if code is None else f"{happened}: {code.name}"


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
    ErrorCode.SASL_AUTHENTICATION_FAILED: AuthenticationFailed,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: AuthenticationFailed,
    ErrorCode.ILLEGAL_SASL_STATE: AuthenticationFailed,
    ErrorCode.FENCED_INSTANCE_ID: FatalError,
    ErrorCode.ILLEGAL_GENERATION: CommitFailed,
    ErrorCode.UNKNOWN_MEMBER_ID: CommitFailed,
    ErrorCode.REBALANCE_IN_PROGRESS: CommitFailed,
    ErrorCode.INVALID_RECORD_STATE: AcknowledgementFailed,
    ErrorCode.SHARE_SESSION_NOT_FOUND: AcknowledgementFailed,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: AcknowledgementFailed,
    ErrorCode.STALE_MEMBER_EPOCH: CommitFailed,
    ErrorCode.FENCED_MEMBER_EPOCH: CommitFailed,
    ErrorCode.UNRELEASED_INSTANCE_ID: FatalError,
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
    ErrorCode.UNRELEASED_INSTANCE_ID: (
        "another member has this group_instance_id; one that was killed keeps it until its session times out"
    ),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (
        "on one broker, Apache Kafka needs transaction.state.log.replication.factor=1, transaction.state.log.min.isr=1 "
        "and offsets.topic.replication.factor=1"
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "create the topic, or allow auto.create.topics.enable on the broker",
    ErrorCode.MESSAGE_TOO_LARGE: "lower batch_size, or raise max.message.bytes of the topic",
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        "session_timeout_ms must be within the broker's group.min.session.timeout.ms and group.max.session.timeout.ms"
    ),
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "transaction_timeout_ms is above the broker's transaction.max.timeout.ms",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (
        "this user lacks a right on the topic: WRITE to produce, READ to consume, DESCRIBE to look it up, CREATE to "
        "create it; `oncelog acl add --principal USER --operation WRITE --topic TOPIC` gives it"
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: (
        "this user lacks a right on the group: READ to be a member and to commit, DESCRIBE to look at it, DELETE to "
        "delete it or its offsets; `oncelog acl add --principal USER --operation READ --group GROUP` gives it"
    ),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "this user lacks a right on the transactional id: WRITE for transactions, DESCRIBE to look at them; `oncelog "
        "acl add --principal USER --operation WRITE --transactional-id ID` gives it"
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
        "this user lacks a right on the cluster: WRITE on any topic, or IDEMPOTENT_WRITE, for an idempotent producer, "
        "DESCRIBE, ALTER and the like to administer; `oncelog acl add --principal USER --operation ALTER --cluster`"
    ),
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "the broker makes none without delegation.token.secret.key",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "log in with SASL or a certificate, and not with a token",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "only its owner and its renewers may change it",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "no token has this HMAC: it has expired, or is not complete",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (
        "a token for another user needs CREATE_TOKENS on that user: `oncelog acl add --principal REQUESTER --operation "
        "CREATE_TOKENS --user-principal OWNER` gives it"
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than the topic's min.insync.replicas",
}


def error_for(code: int, message: str = "") -> KafkaError:
    """Return the exception for a broker's error code."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return FatalError(f"the broker returned an unknown error code {code}")
    kind = _CLASSES.get(known)
    if kind is None:
        kind = RetriableError if known.retriable else ConfigError
    if kind is ProducerFenced:
        return ProducerFenced(code=known)
    return kind(message, code=known, hint=_HINTS.get(known, "") or _not_of_topics(message))


def _not_of_topics(message: str) -> str:
    """Return the hint for a setting of a client that was given to a topic; none for another error."""
    _, is_unknown, name = message.rpartition("Unknown topic config name: ")
    if not is_unknown:
        return ""
    from oncelog.protocol.names import owner_of

    owner = owner_of(name)
    return f"it is a setting of {owner}, not of topics" if owner else ""


def raise_for(code: int, message: str = "") -> None:
    """Raise the exception for the code, unless it is NONE."""
    if code:
        raise error_for(code, message)


def check_each(method: str, values: Sequence[object], kind: type) -> None:
    """Raise ConfigError unless each argument is one: other clients take a list of them."""
    for value in values:
        if not isinstance(value, kind):
            text = f"{method}() takes one {kind.__name__} after the other, not a {type(value).__name__}"
            raise ConfigError(text, hint=f"{method}(*values)" if isinstance(value, list | tuple | set) else "")


def unknown_option(owner: str, name: str, known: Iterable[str], hint: str = "") -> ConfigError:
    """Return the error for an option that a client or method does not have. The default hint is the nearest name, or
    the client that has it."""
    from oncelog.protocol.names import nearest, owner_of

    if not hint:
        near, other = nearest(name, known), owner_of(name)
        if near:
            hint = f"the nearest one is {near[0]}"
        elif other and other != f"a {owner.lower()}":
            hint = f"it is a setting of {other}"
        else:
            hint = "docs/clients/client-options.md lists them"
    return ConfigError(f"{owner} has no option {name!r}", hint=hint)


def check_options(
    client: str, settings: type, options: Mapping[str, object], nested: "Mapping[str, type] | None" = None
) -> None:
    """Raise ConfigError for an option that these settings do not have, or cannot be without. `nested` are options that
    have settings."""
    known = {field.name for field in fields(settings)}
    for name in options:
        if name not in known:
            inside = [option for option, kind in (nested or {}).items() if name in {each.name for each in fields(kind)}]
            raise unknown_option(client, name, known, hint=f"{inside[0]}={{{name!r}: ...}}" if inside else "")
    for field in fields(settings):
        if field.default is MISSING and field.name not in options:
            raise ConfigError(f"{client} needs {field.name}", hint=f"{client}(..., {field.name}=...)")
