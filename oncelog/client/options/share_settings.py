"""Settings of members of share groups (KIP-932), under Kafka's names in snake_case.

Owns: names, types, defaults, checks, as `settings` does for the other clients. Where a group begins to read, its
isolation level, how long locks last and how often a record is delivered are settings of the group, not of its members.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oncelog.client.options.choices import AcknowledgementMode, AcquireMode
from oncelog.client.options.hooks import OnAcknowledged
from oncelog.client.options.serializers import Deserializer
from oncelog.client.options.settings import check_name
from oncelog.client.values.option_values import check_values
from oncelog.client.wire.security import SecuritySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareConsumerSettings(SecuritySettings):
    """The options of `ShareConsumer` with their defaults; times in milliseconds, sizes in bytes. Raises ConfigError for
    values that are not allowed."""

    group_id: str
    """The share group whose members share the records."""
    bootstrap_servers: str | Sequence[str] = "localhost:9092"
    """`host:port,host:port` or a sequence of them: brokers to ask for the others."""
    share_acknowledgement_mode: AcknowledgementMode = "implicit"
    """implicit: the next poll or a commit accepts what was returned; explicit: the program acknowledges each record
    before the next poll."""
    share_acquire_mode: AcquireMode = "batch_optimized"
    """batch_optimized acquires whole batches, also ahead; record_limit no more than max_poll_records, when they are
    asked for, so that their locks begin then. It needs Apache Kafka 4.2 or this broker."""
    max_poll_records: int = 500
    """The most records that one poll returns."""
    max_poll_interval_ms: int = 300_000
    """How long a member may go without a poll before it leaves its group."""
    fetch_min_bytes: int = 1
    """The bytes with which the broker responds to a request, unless fetch_max_wait_ms pass before."""
    fetch_max_wait_ms: int = 500
    """How long a request for records waits for fetch_min_bytes."""
    fetch_max_bytes: int = 50 << 20
    """The size limit of one response, in bytes."""
    check_crcs: bool = True
    """Check each batch's checksum."""
    request_timeout_ms: float = 30_000
    """How long one request waits for its response."""
    default_api_timeout_ms: float = 60_000
    """How long a commit with all its attempts may take."""
    bootstrap_timeout_ms: float = 1_000
    """How long to try to open while nothing accepts a connection."""
    retry_backoff_ms: float = 100
    """The pause between two attempts."""
    client_rack: str | None = None
    """Where this client is; the coordinator may assign by it."""
    key_deserializer: Deserializer[Any] | None = None
    """Makes objects of keys: a function, or an object with `deserialize(topic, headers, data)`; None if keys stay
    bytes."""
    value_deserializer: Deserializer[Any] | None = None
    """Makes objects of values, as key_deserializer of keys."""
    on_acknowledged: OnAcknowledged | None = None
    """Called with a partition, offsets and the error (or None) of acknowledged records, once the outcome is known."""
    client_id: str = "oncelog-share-consumer"
    """The name in the broker's logs and quotas."""

    def __post_init__(self) -> None:
        check_values(self, _AT_LEAST_1)
        check_name("group_id", self.group_id)


_AT_LEAST_1 = frozenset(("max_poll_records", "max_poll_interval_ms"))
