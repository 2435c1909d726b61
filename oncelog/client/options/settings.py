"""Settings of producers and consumers, under Kafka's names in snake_case, and which combinations are invalid.

Owns: names, types, defaults, checks. The keyword arguments that type checkers know (`option_types`) are made of the
fields here by `make generate`. Times are in milliseconds, sizes in bytes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from oncelog.client.options.choices import Acks, Compression, DeliveryMode, GroupProtocol, OffsetReset
from oncelog.client.options.hooks import OnAcknowledgement, OnCommitted, OnConsume, OnPartitions, OnSend
from oncelog.client.options.option_types import (
    ConsumerOptions,
    ProducerOptions,
    SessionConsumerOptions,
    SessionProducerOptions,
)
from oncelog.client.options.serializers import Deserializer, Serializer
from oncelog.client.values.errors import ConfigError
from oncelog.client.values.option_values import check_values
from oncelog.client.values.records import IsolationLevel
from oncelog.client.wire.security import SecuritySettings

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""The names of the assignors that a classic group may choose from; `groups.assignors` has them."""
_MAX_NAME_BYTES = 32_767
"""The longest string in the protocol."""
_CACHED_BATCHES = 5
"""How many batches a broker caches per producer and partition: with more in flight it could not recognise a
duplicate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings(SecuritySettings):
    """The options of `Producer` with their defaults; times in milliseconds, sizes in bytes. Raises ConfigError for
    values and combinations that are not allowed."""

    delivery: DeliveryMode | None = None
    """What a fault may do to records; sets acks and enable_idempotence: 0 and off, "all" and off, or "all" and on."""
    transactional_id: str | None = None
    """Makes the producer transactional; one at a time may have an id, and opening a new one fences the last."""
    enable_idempotence: bool | None = None
    """Number the batches, so that the broker drops what it has already; None is on with acks='all'."""
    acks: Acks = "all"
    """When the broker responds: 'all', 1 or 0. Idempotence and transactions need 'all'."""
    linger_ms: float = 5
    """How long a record that is not awaited waits for others of its partition."""
    batch_size: int = 16_384
    """The size of a batch in bytes before compression; a larger record has a batch of its own."""
    compression_type: Compression = "none"
    """The codec of the batches: none, gzip, snappy, lz4 or zstd."""
    max_in_flight_requests_per_connection: int = 5
    """The number of Produce requests without a response, at most 5 with idempotence."""
    delivery_timeout_ms: float = 120_000
    """How long a record may be unacknowledged before it fails with DeliveryTimeout."""
    request_timeout_ms: float = 30_000
    """How long one request waits for its response before it is sent again."""
    transaction_timeout_ms: int = 60_000
    """How long a transaction may be open before the coordinator aborts it."""
    transaction_two_phase_commit_enable: bool = False
    """Transactions never time out and may be prepared; the broker must allow it. Experimental (KIP-939)."""
    retry_backoff_ms: float = 100
    """The pause between two attempts."""
    max_block_ms: float = 60_000
    """How long to wait for opening, which fences too, a new topic, a full buffer and the end of a transaction."""
    bootstrap_timeout_ms: float = 1_000
    """How long to try to open while nothing accepts a connection."""
    buffer_memory: int = 32 << 20
    """The bytes of records that may be unacknowledged; beyond them a send waits."""
    max_request_size: int = 1 << 20
    """The size limit of a Produce request, and of the largest record, in bytes."""
    key_serializer: Serializer[Any] | None = None
    """Makes bytes of keys: a function, or an object with `serialize(topic, headers, data)`; None if keys are bytes."""
    value_serializer: Serializer[Any] | None = None
    """Makes bytes of values, as key_serializer of keys."""
    on_send: OnSend[Any, Any] | None = None
    """Called with each ProducerRecord before it is serialized; returns the one to send."""
    on_acknowledgement: OnAcknowledgement | None = None
    """Called with the RecordMetadata and the error (or None) of each record, once its outcome is known."""
    client_id: str = "oncelog-producer"
    """The name in the broker's logs and quotas."""

    def __new__(cls, **options: Any) -> Self:
        _check_delivery(options, _PRODUCER_MODES)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        check_values(self, _AT_LEAST_1)
        _apply(self, self.delivery, _PRODUCER_MODES)
        if self.is_idempotent and self.max_in_flight_requests_per_connection > _CACHED_BATCHES:
            raise ConfigError("max_in_flight_requests_per_connection: 1 to 5 with idempotence")
        check_name("transactional_id", self.transactional_id)
        if (self.is_idempotent or self.transactional_id is not None) and self.acks_value != -1:
            hint = _set_by(self.delivery, _PRODUCER_MODES, "acks")
            raise ConfigError("idempotence and transactions need acks='all'", hint=hint)
        if self.transactional_id is not None and not self.is_idempotent:
            hint = _set_by(self.delivery, _PRODUCER_MODES, "enable_idempotence") or "leave enable_idempotence on"
            raise ConfigError("a transactional producer must be idempotent", hint=hint)
        if self.transaction_two_phase_commit_enable and self.transactional_id is None:
            raise ConfigError("transaction_two_phase_commit_enable needs a transactional_id")

    @property
    def acks_value(self) -> int:
        """`acks` as the protocol has it: -1, 0 or 1."""
        return -1 if self.acks == "all" else self.acks

    @property
    def is_idempotent(self) -> bool:
        """Whether the producer numbers its batches, so that the broker drops duplicates."""
        return self.acks_value == -1 if self.enable_idempotence is None else self.enable_idempotence


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(SecuritySettings):
    """The options of `Consumer` with their defaults; times in milliseconds, sizes in bytes. Raises ConfigError for
    values and combinations that are not allowed."""

    bootstrap_servers: str | Sequence[str] = "localhost:9092"
    """`host:port,host:port` or a sequence of them: brokers to ask for the others."""
    delivery: DeliveryMode | None = None
    """What a fault may do to records; sets when they are committed: before they are returned, after them, or in the
    transaction of their results."""
    pattern: str | None = None
    """A regular expression instead of topics, which whole names match; a group looks for new ones. With
    group_protocol="consumer" the coordinator evaluates it, by RE2; otherwise this client, by Python's `re`."""
    group_id: str | None = None
    """The group whose members share the partitions, and whose offsets are committed."""
    isolation_level: IsolationLevel = "read_committed"
    """read_committed returns neither open nor aborted transactions; read_uncommitted everything."""
    auto_offset_reset: OffsetReset = "latest"
    """Where to start without a committed offset; 'error' raises NoOffsetForPartition."""
    enable_auto_commit: bool = False
    """Commit what poll and the iterator have returned, every auto_commit_interval_ms and at the end; if an exception
    ends it, without what was returned last."""
    commit_before_return: bool = False
    """Commit records before they are returned: one that is processed when the consumer dies does not come again."""
    auto_commit_interval_ms: float = 5_000
    """How often to commit: see enable_auto_commit."""
    max_poll_records: int = 500
    """The most records that one poll returns."""
    max_poll_interval_ms: int = 300_000
    """How long a member may go without a poll before it leaves its group."""
    session_timeout_ms: int = 45_000
    """How long a member may go without a heartbeat before the coordinator removes it."""
    heartbeat_interval_ms: int = 3_000
    """The time between two heartbeats: below session_timeout_ms, and usually at most a third of it."""
    group_instance_id: str | None = None
    """Makes a static member: it may come back within session_timeout_ms without a rebalance (KIP-345)."""
    group_protocol: GroupProtocol = "classic"
    """consumer: the coordinator assigns the partitions, and each member moves on by itself (KIP-848)."""
    group_remote_assignor: str | None = None
    """With group_protocol="consumer", the coordinator's assignor: uniform or range; None leaves it the choice."""
    partition_assignment_strategy: Sequence[str] = ("range", "roundrobin")
    """The assignors that the group may choose from: range, roundrobin, sticky, cooperative-sticky. With the last alone,
    members keep their partitions during a rebalance but for those that move to another member."""
    fetch_min_bytes: int = 1
    """The bytes with which the broker responds to a Fetch, unless fetch_max_wait_ms pass before."""
    fetch_max_wait_ms: int = 500
    """How long a Fetch waits for fetch_min_bytes."""
    fetch_max_bytes: int = 50 << 20
    """The size limit of one Fetch response, in bytes."""
    queued_max_bytes: int = 32 << 20
    """The bytes that are fetched ahead, of all partitions and as they are sent: compressed, and before Python makes
    objects of them. A batch that is larger than what is left is fetched nevertheless."""
    max_partition_fetch_bytes: int = 1 << 20
    """The bytes of one partition in a Fetch response; a larger batch is returned nevertheless."""
    check_crcs: bool = True
    """Check each batch's checksum."""
    request_timeout_ms: float = 30_000
    """How long one request waits for its response before it is sent again."""
    default_api_timeout_ms: float = 60_000
    """How long a call with all its attempts may take."""
    bootstrap_timeout_ms: float = 1_000
    """How long to try to open while nothing accepts a connection."""
    retry_backoff_ms: float = 100
    """The pause between two attempts."""
    metadata_max_age_ms: int = 300_000
    """How often a group looks for new partitions, and for new topics of `pattern`."""
    client_rack: str | None = None
    """Where this client is: brokers may have it read from a replica in its rack (KIP-392)."""
    on_assign: OnPartitions | None = None
    """Awaited inside poll() or the iterator, after the group has newly assigned these partitions to it."""
    on_revoke: OnPartitions | None = None
    """Awaited before the partitions are revoked: in a rebalance, and when the consumer is closed."""
    on_lost: OnPartitions | None = None
    """Awaited instead of on_revoke when the partitions may have another owner already, so that it is too late to
    commit."""
    key_deserializer: Deserializer[Any] | None = None
    """Makes objects of keys: a function, or an object with `deserialize(topic, headers, data)`; None if keys stay
    bytes."""
    value_deserializer: Deserializer[Any] | None = None
    """Makes objects of values, as key_deserializer of keys."""
    on_consume: OnConsume[Any, Any] | None = None
    """Called with records before they are returned; returns those to return."""
    on_commit: OnCommitted | None = None
    """Called with offsets after they were committed."""
    client_id: str = "oncelog-consumer"
    """The name in the broker's logs and quotas."""

    def __new__(cls, **options: Any) -> Self:
        _check_delivery(options, _CONSUMER_MODES)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        check_values(self, _AT_LEAST_1)
        _apply(self, self.delivery, _CONSUMER_MODES)
        self._check_protocol()
        self._check_assignors()
        if self.pattern is not None and self.group_protocol == "classic":
            try:
                re.compile(self.pattern)
            except re.error as error:
                raise ConfigError(f"pattern={self.pattern!r} is not a regular expression: {error}") from None
        for name in ("enable_auto_commit", "commit_before_return"):
            if getattr(self, name) and self.group_id is None:
                raise ConfigError(f"{name} needs a group_id", hint=_set_by(self.delivery, _CONSUMER_MODES, name))
        if self.group_instance_id is not None and self.group_id is None:
            raise ConfigError("group_instance_id needs a group_id")
        if self.enable_auto_commit and self.commit_before_return:
            raise ConfigError("enable_auto_commit commits after records are returned, commit_before_return before")
        for name in ("group_id", "group_instance_id"):
            check_name(name, getattr(self, name))
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError("heartbeat_interval_ms must be below session_timeout_ms; a third of it is usual")

    def _check_assignors(self) -> None:
        if not self.partition_assignment_strategy:
            raise ConfigError("partition_assignment_strategy is empty")
        for name in self.partition_assignment_strategy:
            if name not in ASSIGNORS:
                known = ", ".join(map(repr, ASSIGNORS))
                raise ConfigError(f"partition_assignment_strategy has {name!r}, and must be of {known}")

    def _check_protocol(self) -> None:
        """Raise ConfigError for an option that the coordinator decides in this group protocol."""
        theirs = _CLASSIC_OPTIONS if self.group_protocol == "consumer" else _CONSUMER_OPTIONS
        defaults = {each.name: each.default for each in fields(self)}
        for name, instead in theirs.items():
            if getattr(self, name) != defaults[name]:
                raise ConfigError(f"{name} has no meaning with group_protocol={self.group_protocol!r}", hint=instead)

    @property
    def reads_committed(self) -> bool:
        """Whether the isolation level is read_committed."""
        return self.isolation_level == "read_committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings(SecuritySettings):
    """The options of `TransactionalSession` with their defaults."""

    group_id: str
    """The group whose members share the partitions, and whose offsets are committed with the results."""
    bootstrap_servers: str | Sequence[str] = "localhost:9092"
    """`host:port,host:port` or a sequence of them: brokers to ask for the others."""
    transactional_id: str | None = None
    """One for each instance that runs at a time; None is a new one each time."""
    max_records: int = 500
    """The most records that one transaction reads."""
    max_wait_ms: int = 0
    """How long a transaction of fewer records waits for more to come."""
    key_deserializer: Deserializer[Any] | None = None
    """The deserializer of the keys that are read; see the consumer."""
    value_deserializer: Deserializer[Any] | None = None
    """The deserializer of the values that are read."""
    key_serializer: Serializer[Any] | None = None
    """The serializer of the results' keys; see the producer."""
    value_serializer: Serializer[Any] | None = None
    """The serializer of the results' values."""
    consumer: SessionConsumerOptions | None = None
    """More options of the consumer."""
    producer: SessionProducerOptions | None = None
    """More options of the producer."""

    def __post_init__(self) -> None:
        check_values(self, _AT_LEAST_1)


_AT_LEAST_1 = frozenset(
    (
        "max_in_flight_requests_per_connection",
        "buffer_memory",
        "max_request_size",
        "transaction_timeout_ms",
        "max_poll_records",
        "max_poll_interval_ms",
        "session_timeout_ms",
        "heartbeat_interval_ms",
        "queued_max_bytes",
        "max_records",
    )
)
"""The options that must be at least 1: with 0 nothing would ever be sent, returned or kept. The other numbers may be 0,
as in Kafka."""
_CLASSIC_OPTIONS = {
    "partition_assignment_strategy": "group_remote_assignor names the coordinator's assignor",
    "session_timeout_ms": "the broker's group.consumer.session.timeout.ms, or the group's consumer.session.timeout.ms",
    "heartbeat_interval_ms": (
        "the broker's group.consumer.heartbeat.interval.ms, or the group's consumer.heartbeat.interval.ms"
    ),
}
_CONSUMER_OPTIONS = {"group_remote_assignor": "partition_assignment_strategy names the assignors of a classic group"}
_PRODUCER_MODES: dict[DeliveryMode, ProducerOptions] = {
    "at_most_once": {"acks": 0, "enable_idempotence": False},
    "at_least_once": {"acks": "all", "enable_idempotence": False},
    "exactly_once": {"acks": "all", "enable_idempotence": True},
}
_CONSUMER_MODES: dict[DeliveryMode, ConsumerOptions] = {
    "at_most_once": {"commit_before_return": True, "enable_auto_commit": False},
    "at_least_once": {"commit_before_return": False, "enable_auto_commit": True},
    "exactly_once": {
        "commit_before_return": False,
        "enable_auto_commit": False,
        "isolation_level": "read_committed",
    },
}


_Modes = Mapping[DeliveryMode, ProducerOptions | ConsumerOptions]


def _check_delivery(options: Mapping[str, Any], modes: _Modes) -> None:
    """Raise ConfigError for an option that contradicts the mode. It looks at what was passed: settings that are made
    do not know which defaults were."""
    for mode, sets in modes.items():
        for name, value in sets.items() if options.get("delivery") == mode else ():
            if options.get(name) not in (None, value, -1 if value == "all" else value):
                said = f"{_set_by(mode, modes, name)}, and {name}={options[name]!r} was passed"
                raise ConfigError(said, hint="leave one of the two out")


def _apply(settings: ProducerSettings | ConsumerSettings, mode: DeliveryMode | None, modes: _Modes) -> None:
    for name, value in modes[mode].items() if mode is not None else ():
        object.__setattr__(settings, name, value)  # the settings are frozen once they are made


def _set_by(mode: DeliveryMode | None, modes: _Modes, name: str) -> str:
    """Return the words for an error about an option that the delivery mode has set; none if the program set it."""
    sets: Mapping[str, object] = {} if mode is None else modes[mode]
    return f"delivery={mode!r} sets {name}={sets[name]!r}" if name in sets else ""


def check_name(option: str, name: str | None) -> None:
    """Raise ConfigError for a name longer than the protocol allows: the broker would close the connection, each time
    and without an error."""
    if name is None:
        return
    if not 0 < len(name.encode(errors="replace")) <= _MAX_NAME_BYTES:
        raise ConfigError(f"{option} is {f'longer than {_MAX_NAME_BYTES:,} bytes' if name else 'empty'}")
